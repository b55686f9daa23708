"""Soma's stand-in for torch_neuronx, where the real one is absent: models run as torch runs them,
on the CPU, and their NKI kernels on Soma. What is not here is refused by name."""
import os
import warnings

import torch

from soma.record import add_own

from .xla_impl.ops import nki_jit

__version__ = "0.0+soma"
add_own(os.path.dirname(__file__))
warnings.warn("torch_neuronx is Soma's: models run on the CPU, and kernels of NKI on Soma",
              UserWarning, stacklevel=2)


def __getattr__(name):
    raise AttributeError("torch_neuronx.%s is not built: this is Soma's stand-in, not the real "
                         "torch_neuronx" % name)


def wrap_nki(kernel, grid=None, **options):
    """A kernel that a model calls with tensors of torch."""
    made = nki_jit(kernel)
    return made if grid is None else made[grid]


class TracedModel(torch.nn.Module):
    """What trace() gives: the model, called without gradients."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        with torch.no_grad():
            return self.function(*inputs)


def trace(func, example_inputs, *_, **options):
    """The model, which has run once with the example. Options of the compiler have no effect."""
    traced = TracedModel(func)
    traced(*(example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    return traced


def move_trace_to_device(trace, device_id):
    """Nothing moves: the weights are on the host, from which kernels copy them."""
