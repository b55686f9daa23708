"""torch_xla.debug: metrics and profiler."""
