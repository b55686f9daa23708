"""The target of a kernel."""
import os

from soma import record
from soma.errors import SomaError
from soma.machine import GENERATION

_NAMES = {"trn1": "trn1", "gen2": "trn1", "inf2": "inf2", "trn2": "trn2", "gen3": "trn2",
          "trn3": "trn3", "gen4": "trn3", "trn1n": "trn1", "trn2n": "trn2"}


def target_of(asked):
    """The target asked for by a launch, else by NEURON_PLATFORM_TARGET_OVERRIDE, else trn2."""
    name = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE") or asked or "trn2"
    found = _NAMES.get(str(name).lower())
    if found is None:
        raise SomaError("the target %s is not known: there are trn1, inf2, trn2, trn3 and gen2 to "
                        "gen4"
                        % name)
    return found


def generation():
    """The target of the kernel that is being built, else of the environment."""
    return record.active().gen if record.recording() else GENERATION[target_of(None)]
