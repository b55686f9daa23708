"""The targets that the library knows."""
import ctypes as C

from . import lib as L
from .lib import lib

GENERATION = {}  # of a target: what NKI and the tables of instructions count by
_target = L.TargetInfo()
while lib.soma_target_row(len(GENERATION), C.byref(_target), C.sizeof(_target)) == L.OK:
    GENERATION[_target.name.decode()] = _target.generation
