"""neuronxcc.nki: the older name of nki. Old and new calls work under both."""
import sys as _sys

import functools as _functools

from nki import *  # noqa: F401,F403
from nki import jit as _jit
from nki import (collectives, compiler, dtype, experimental, isa, language,  # noqa: F401
                 typing)
from nki.isa import constants as _constants

for _name, _module in {"isa": isa, "language": language, "compiler": compiler, "typing": typing,
                       "collectives": collectives, "dtype": dtype, "experimental": experimental,
                       "isa.constants": _constants}.items():
    _sys.modules[__name__ + "." + _name] = _module


@_functools.wraps(_jit)
def jit(fn=None, **options):
    return _jit(fn, style="neuronxcc", **options)
