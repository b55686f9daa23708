"""See torch_xla.distributed.xla_backend."""
