"""Targets by name, and hypothetical machines: a target with other values, as one of

    "trn2, sbuf_kib=384"                       its name is then "hypothetical trn2, sbuf_kib=384"
    {"base": "trn2", "sbuf_kib": 384}
    "fast.target"                              a file with such a text
"""
import ctypes as C
import functools
import os

from . import lib as L
from .errors import SomaError
from .lib import lib


class _Generations(dict):
    """Of a target: what NKI and the tables of instructions count by; of a hypothetical machine that
    of its base."""

    def __missing__(self, name):
        words = name.split(",")[0].split()
        if words[:1] != ["hypothetical"]:
            raise KeyError(name)
        return self[words[1]]


GENERATION = _Generations()
_target = L.TargetInfo()
while lib.soma_target_row(len(GENERATION), C.byref(_target), C.sizeof(_target)) == L.OK:
    GENERATION[_target.name.decode()] = _target.generation


@functools.lru_cache(maxsize=64)
def _read(text):
    from .machine import Machine
    return Machine(text).target


def target_named(asked):
    """The name of a target, or of a hypothetical machine that is asked for by text, dict or file;
    None where no target has that name."""
    if isinstance(asked, dict):
        if "base" not in asked:
            raise SomaError("target: %r names no base, such as trn2" % (asked,))
        rest = ["%s=%s" % (name, value) for name, value in asked.items() if name != "base"]
        return _read(", ".join(["base=%s" % asked["base"]] + rest))
    if not isinstance(asked, (str, os.PathLike)):
        raise TypeError("target=%r: it is a name such as \"trn2\", a text or a dict of a "
                        "hypothetical machine, or a file with such a text" % (asked,))
    asked = os.fspath(asked)
    if asked in GENERATION:
        return asked
    if not set("=,") & set(asked):
        if not os.path.isfile(asked):
            return None
        with open(asked) as f:
            asked = f.read()
    return _read(asked)


@functools.lru_cache(maxsize=64)
def row_of(name):
    """What a machine of that name has: the fields of soma_target_info."""
    from .machine import Machine
    found, machine = L.TargetInfo(), Machine(name)
    lib.soma_machine_target(machine.handle, C.byref(found), C.sizeof(found))
    return {n: getattr(found, n) for n, _ in found._fields_[1:-1]}


def need_target(asked):
    """The same, or an error that lists the targets."""
    name = target_named(asked)
    if name is None:
        raise SomaError("there is no target %r; there are %s" % (asked, ", ".join(GENERATION)))
    return name
