"""nki on Soma: kernels written for the Neuron Kernel Interface run on an emulated core. The package
has the names of the vendor's; run scripts with `soma-nki script.py`."""
import os as _os

from soma.record import add_own as _add_own

from . import collectives, compiler, isa, language, typing  # noqa: F401
from . import dtype, experimental  # noqa: F401
from ._jit import (BenchmarkResult, Kernel, KernelRun, baremetal, benchmark, jit, profile, simulate,
                   simulate_kernel, trace)
from .language import NkiTensor as tensor  # noqa: F401

_add_own(_os.path.dirname(__file__))
__all__ = ["BenchmarkResult", "Kernel", "KernelRun", "baremetal", "benchmark", "collectives",
           "compiler", "dtype", "isa", "jit", "language", "profile", "simulate", "simulate_kernel",
           "tensor", "trace", "typing"]
