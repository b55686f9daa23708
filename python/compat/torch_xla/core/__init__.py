"""See torch_xla.core.xla_model."""
