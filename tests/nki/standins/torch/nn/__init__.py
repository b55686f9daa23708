"""torch.nn: what the examples use is in functional."""
from . import functional  # noqa: F401
