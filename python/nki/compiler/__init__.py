"""nki.compiler: allocators of the older API, and decorators."""
import inspect

from ..language._loops import no_reorder
from ..language._types import psum as _psum_region
from ..language._types import sbuf as _sbuf_region
from ..language._types import tile_size as _tile_size
from soma.checked import between
from soma.errors import KernelError


def _unchanged(f=None, *args, **kwargs):
    """Returns the function unchanged; also as a decorator with arguments."""
    return f if callable(f) else (lambda g: g)


enable_stack_allocator = force_auto_alloc = _unchanged


def skip_middle_end_transformations(f=None):
    """Small transfers and copies of a line are not merged over rounds of a loop."""
    if f is None:
        return skip_middle_end_transformations
    function = f
    while hasattr(function, "kernel") or hasattr(function, "function"):  # a kernel's, a benchmark's
        function = getattr(function, "kernel", None) or function.function
    function.unmerged = True
    return f


class Allocator:
    """The place of each tile of an array, by a function of the array's indices and the tile's sizes
    (partitions; bytes in a partition)."""

    def __init__(self, region, function):
        self.region, self.function = region, function
        self.named = _takes(function, self._GIVEN)

    _GIVEN = "idx", "pdim_size", "fdim_size"

    def place(self, index, parts, size):
        """(start partition, byte offset) of a tile, or None: chosen."""
        if self.function is None:
            return None
        found = self._ask(index, parts, size)
        words = "bank, partition, byte" if self.region is _psum_region else "partition, byte"
        if not isinstance(found, (tuple, list)) or len(found) != words.count(",") + 1:
            raise KernelError("an allocator of %s gives (%s), not %s"
                              % (self.region.name, words, (found,)))
        said = "%%s that the allocator gives tile %s" % (index,)
        at = between(found[-1], 0, (1 << 31) - 1, said % "the byte")
        part = between(found[-2], 0, 127, said % "the start partition")
        if self.region is _psum_region:
            bank = between(found[0], 0, 7, said % "the bank")
            at = between(at, 0, 7 - bank + 1 << 11, said % "the byte")
            return part, bank * _tile_size.psum_bank_fmax_bytes + at
        return part, at

    def _ask(self, index, parts, size):
        """What the function gives; its parameters have the names of the language or others."""
        given = index, parts, size
        return self.function(**dict(zip(self._GIVEN, given))) if self.named else \
            self.function(*given)


def _takes(function, names):
    """Whether a function has parameters of these names."""
    try:
        return set(names) <= set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # it is not of Python, or there is none
        return False


def _modulo(base, counts, scale):
    """base + scale * the row-major number of an index modulo counts."""
    counts = [between(n, 1, 1 << 31, "a number of tiles of mod_alloc") for n in counts]
    def place(index):
        n, sizes = 0, counts or (1,) * len(index)
        for d, (i, size) in enumerate(zip(index, sizes)):
            rows = 1
            for later in sizes[d + 1:]:
                rows *= later
            n += i % size * rows
        return base + n * scale
    return place


class _Sbuf:
    """Allocators of SBUF."""

    region = _sbuf_region

    def alloc(self, function):
        return Allocator(self.region, function)

    def auto_alloc(self, *args, **kwargs):
        return Allocator(self.region, None)

    def mod_alloc(self, *, base_addr, base_partition=0, num_par_tiles=(), num_free_tiles=()):
        return Allocator(self.region, lambda index, parts, size: (
            _modulo(base_partition, num_par_tiles, parts)(index),
            _modulo(base_addr, num_free_tiles, size)(index)))


class _Psum(_Sbuf):
    """Allocators of PSUM."""

    region = _psum_region

    def mod_alloc(self, *, base_bank=0, base_addr=0, base_partition=0, num_bank_tiles=(),
                  num_par_tiles=(), num_free_tiles=()):
        return Allocator(self.region, lambda index, parts, size: (
            _modulo(base_bank, num_bank_tiles, 1)(index),
            _modulo(base_partition, num_par_tiles, parts)(index),
            _modulo(base_addr, num_free_tiles, size)(index)))


sbuf, psum = _Sbuf(), _Psum()
__all__ = ["Allocator", "enable_stack_allocator", "force_auto_alloc", "no_reorder", "psum", "sbuf",
           "skip_middle_end_transformations"]
