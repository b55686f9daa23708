"""Soma's stand-in for torch_neuronx, where the real one is absent: models run as torch runs them,
on the CPU or on the device neuron:0 of soma.torch, and their NKI kernels on Soma. What is not here
is refused by name."""
import copy
import os
import warnings

import torch
from torch.utils._pytree import tree_map

import soma
from soma.errors import not_in_stand_in
from soma.record import add_own

from . import experimental  # noqa: F401
from .xla_impl.ops import nki_jit

__version__ = "0.0+soma"
add_own(os.path.dirname(__file__))
warnings.warn("torch_neuronx is Soma's: models run on the CPU or on soma.torch's device neuron:0, "
              "and kernels of NKI on Soma", UserWarning, stacklevel=2)
soma.torch.enable(lazy=True)
__getattr__ = not_in_stand_in(__name__)


def wrap_nki(kernel, grid=None, **options):
    """A kernel that a model calls with tensors of torch."""
    made = nki_jit(kernel)
    return made if grid is None else made[grid]


class TracedModel(torch.nn.Module):
    """What trace() gives: the model, called without gradients. If all inputs are on a device, it
    runs there and its results stay there; else they are on the CPU."""

    def __init__(self, function, example):
        super().__init__()
        self.function = function
        self.original = function, example  # a tuple: not one of this module's parts
        self.device = None  # where its weights were moved

    def forward(self, *inputs):
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
        here = bool(tensors) and all(soma.torch.is_here(x) for x in tensors)
        if here and self.device is None:
            move_trace_to_device(self, tensors[0].device.index)
        with torch.no_grad():
            found = self.function(*_moved(inputs, self.device or "cpu"))
            return found if here else _moved(found, "cpu")

    def save(self, path, **options):
        """Saves it as torch.jit.trace has it, for torch.jit.load: on the CPU. Kernels of NKI are
        not operations of torch, so that a model with them cannot be saved."""
        function, example = self.original
        if isinstance(function, torch.nn.Module):  # results have no gradients, as here
            function = copy.deepcopy(function).requires_grad_(False)
        with soma.session() as found:
            script = torch.jit.trace(function, example, check_trace=False)
        if found.calls:
            raise NotImplementedError("%s: a model that calls kernels of NKI (%s) cannot be saved"
                                      % (path, ", ".join(found.by_kernel())))
        script.save(path, **options)


def _moved(values, where):
    return tree_map(lambda x: x.to(where) if isinstance(x, torch.Tensor) else x, values)


def trace(func, example_inputs, *_, **options):
    """The model, which has run once with the example. Options of the compiler have no effect."""
    example = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else \
        (example_inputs,)
    traced = TracedModel(func, example)
    traced(*example)
    return traced


def move_trace_to_device(trace, device_id):
    """Moves a traced model to the device neuron:device_id, with a copy of its weights. Those of a
    plain function stay where they are."""
    trace.device = "neuron:%d" % device_id
    if isinstance(trace.function, torch.nn.Module):
        trace.function = copy.deepcopy(trace.function).to(trace.device)
