"""Whether a kernel has dropped what a call returned: `nisa.tensor_scalar(data=x, ...)` as a
statement makes a new tile that nothing can use."""
from sys import getrefcount
from types import SimpleNamespace


def _counts(pending):
    tile = pending[1]
    return getrefcount(tile), getrefcount(tile.storage)


_TILE, _STORAGE = _counts((None, SimpleNamespace(storage=object())))  # if nothing else has them


def dropped(pending):
    """Whether nothing but the recorder has the tile of Recorder.pending, or its storage, as views
    have."""
    tile = pending[1]
    return getrefcount(tile) == _TILE and getrefcount(tile.storage) == _STORAGE
