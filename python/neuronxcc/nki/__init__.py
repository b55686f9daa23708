"""neuronxcc.nki: the older name of nki. Old and new calls work under both."""
import sys as _sys

import functools as _functools

import nki as _nki
from nki import *  # noqa: F401,F403
from nki import (collectives, compiler, dtype, experimental, isa, language,  # noqa: F401
                 typing)
from nki.isa import constants as _constants

for _name, _module in {"isa": isa, "language": language, "compiler": compiler, "typing": typing,
                       "collectives": collectives, "dtype": dtype, "experimental": experimental,
                       "isa.constants": _constants, "language.constants": language.constants,
                       "nccl": collectives, "nccl.collectives": collectives,
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
