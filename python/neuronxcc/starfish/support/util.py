"""allclose(), as scripts use it to compare results."""
import numpy as np


def allclose(a, b, atol=1e-8, rtol=1e-5, verbose=0, **other):
    """Whether all values are as close as np.allclose has it."""
    return bool(np.allclose(np.asarray(a), np.asarray(b), atol=atol, rtol=rtol))
