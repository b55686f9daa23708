"""Soma's stand-in for torch_xla, where the real one is absent: the device of XLA is the CPU, where
every operation is done at once. What is not here is refused by name."""
import warnings

import torch

import soma
from soma.errors import not_in_stand_in

__version__ = "0.0+soma"
warnings.warn("torch_xla is Soma's: tensors stay on the CPU, and kernels of NKI run on Soma",
              UserWarning, stacklevel=2)
soma.torch.xla_is_cpu()
__getattr__ = not_in_stand_in(__name__)


def device(index=None):
    """The device on which tensors are."""
    return torch.device("cpu")


def sync(wait=False):
    """Nothing waits here: operations are done when they are called."""


from . import runtime  # noqa: E402,F401
from .core import xla_model  # noqa: E402,F401
