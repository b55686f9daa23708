"""See torch_neuronx.xla_impl.ops."""
