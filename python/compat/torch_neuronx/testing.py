"""torch_neuronx.testing: comparisons of results."""
from torch.testing import assert_close  # noqa: F401
