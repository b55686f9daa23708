"""nki.collectives: operations between devices. They are refused, since one core is emulated."""
from soma.errors import NotBuilt

from .isa._common import NKIObject


class ReplicaGroup(NKIObject):
    """Groups of ranks."""

    def __init__(self, groups=None, **fields):
        super().__init__(groups=groups, **fields)


def _refuse(name):
    def function(*args, **kwargs):
        raise NotBuilt("nki.collectives.%s is not built: one core is emulated, there are no other "
                       "ranks" % name)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Refused: collectives between devices are not built."
    return function


NAMES = ("all_reduce all_gather all_gather_v reduce_scatter all_to_all all_to_all_v "
         "collective_permute collective_permute_implicit collective_permute_implicit_reduce "
         "collective_permute_implicit_current_processing_rank_id rank_id").split()
for _name in NAMES:
    globals()[_name] = _refuse(_name)
