"""torch_neuronx.experimental: the profiler."""
from . import profiler  # noqa: F401
