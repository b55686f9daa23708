"""Soma from Python: emulated AWS NeuronCores over libsoma.

    import soma
    run = soma.run(open("prog.s").read(), {"x": x}, checks="all")
    print(run.out["y"], run.stats.time_ns, run.findings)

Classes: Machine, Program, Run; `help(soma.Machine)`. Kernels written for NKI run with
`soma-nki script.py`. The manual is python/README.md of the sources, installed under share/doc/soma.
"""
from .arrays import RawArray, array, from_bits
from .devices import Device, DeviceArray, device
from .dtypes import DType
from .errors import (DeadlockError, KernelError, LibraryNotFound, NotBuilt, SomaError, SomaFault)
from .lib import lib as _lib
from .machine import CHECKS, Finding, Machine, Program, Run, RunStats, run
from .notebook import name_timed_cells as _name_timed_cells
from .operators import where
from .processes import rank, ranks
from .sessions import Session, session
from .sweep import Sweep, autotune, sweep
from .worlds import World, WorldRun, load_world, plan, world

_name_timed_cells()
__version__ = _lib.soma_version().decode()
__all__ = ["CHECKS", "DType", "DeadlockError", "Device", "DeviceArray", "Finding", "KernelError",
           "LibraryNotFound", "Machine", "NotBuilt", "Program", "RawArray", "Run", "RunStats",
           "Session", "SomaError", "SomaFault", "Sweep", "World", "WorldRun", "array", "autotune",
           "device", "from_bits", "rank", "ranks", "run", "session", "sweep", "where", "world"]


def __getattr__(name):
    """soma.torch, which imports torch, when it is first asked for."""
    if name == "torch":
        import importlib
        return importlib.import_module(".torch", __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
