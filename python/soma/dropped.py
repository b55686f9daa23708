"""Whether a kernel has dropped what a call returned: `nisa.tensor_scalar(data=x, ...)` as a
statement makes a new tile that nothing can use."""
import sys
from types import SimpleNamespace


def _holders(pending):
    """References to the tile of Recorder.pending and, as views have it, to its storage, with those
    of this function."""
    tile = pending[1]
    return sys.getrefcount(tile) + sys.getrefcount(tile.storage)


_ALONE = _holders((None, SimpleNamespace(storage=object())))


def dropped(pending):
    """Whether nothing but the recorder knows the tile of Recorder.pending."""
    return _holders(pending) == _ALONE
