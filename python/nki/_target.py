"""The target of a kernel."""
import os

from soma import record
from soma.errors import SomaError
from soma.targets import GENERATION, row_of, target_named

_NAMES = {"trn1n": "trn1", "trn2n": "trn2"}  # instances with more network
for _name, _gen in GENERATION.items():
    _NAMES[_name] = _name
    _NAMES.setdefault("gen%d" % _gen, _name)  # the first of its generation


def target_of(asked):
    """The target, or hypothetical machine, asked for by a launch, else by
    NEURON_PLATFORM_TARGET_OVERRIDE, else trn2."""
    name = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE") or asked or "trn2"
    found = _NAMES.get(str(name).lower()) or target_named(name)
    if found is None:
        raise SomaError("the target %s is not known: there are %s" % (name, ", ".join(GENERATION)))
    return found


def row():
    """The machine of the kernel that is being built, else of the environment."""
    return row_of(record.active().target if record.recording() else target_of(None))


def generation():
    """The target of the kernel that is being built, else of the environment."""
    return record.active().gen if record.recording() else GENERATION[target_of(None)]
