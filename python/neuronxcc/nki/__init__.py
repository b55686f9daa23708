"""neuronxcc.nki: the older name of nki. Old and new calls work under both."""
import functools as _functools
import os as _os
import sys as _sys

import nki as _nki
from nki import *  # noqa: F401,F403
from nki import (collectives, compiler, dtype, experimental, isa, language,  # noqa: F401
                 typing)
from nki.isa import constants as _constants
from soma.record import add_own as _add_own

_add_own(_os.path.dirname(__file__))

for _name, _module in {"isa": isa, "language": language, "compiler": compiler, "typing": typing,
                       "collectives": collectives, "dtype": dtype, "experimental": experimental,
                       "isa.constants": _constants, "language.constants": language.constants,
                       "nccl": collectives, "nccl.collectives": collectives, "isa.neuron_isa": isa,
                       }.items():
    _sys.modules[__name__ + "." + _name] = _module
nccl = collectives



def _older(name, option):
    """A function of nki that makes kernels of this package: its toolchain does more to them."""
    function = getattr(_nki, name)

    @_functools.wraps(function)
    def make(*args, **options):
        return function(*args, **{option: "neuronxcc"}, **options)
    return make


for _name in ("jit", "trace", "benchmark", "profile", "baremetal"):
    globals()[_name] = _older(_name, "style")
for _name in ("simulate", "simulate_kernel"):
    globals()[_name] = _older(_name, "_style")


def _memcpy(dst, src, mask=None):
    """dst = src between places in HBM, as kernels for the older package call it."""
    return isa.dma_copy(dst=dst, src=src, mask=mask)


isa._tiled_offloaded_memcpy = _memcpy
