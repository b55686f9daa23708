"""Zeros that may not be needed: of tiles in PSUM in which matmuls begin sums, and of tiles that are
read before they are written."""
import functools

import numpy as np

from . import record
from .errors import KernelError


class _Ended:
    """Stands for the ZeroState of storage whose kernel has been recorded: an operand asks it first,
    and its number would mean something else in another kernel."""

    __slots__ = ()

    def settle(self):
        """Refuses the operand."""
        raise KernelError("a tile or tensor of an earlier call of a kernel: each call makes its "
                          "own")

    def needed(self, view, adds):
        """The same for a matmul's destination."""
        self.settle()


ended = _Ended()


class ZeroState:
    """For a tile of zeros in PSUM: the memset is not emitted until something other than a matmul
    that starts a sum touches the tile; then what no matmul has written yet is zeroed. With `filled`
    it is emitted, and the first matmul still writes: adding to what no matmul has written is
    undefined. `adds`: the kernel's own memset, after which accumulate=True adds. `unset`: the place
    of the reading of a tile that nothing has written, for which the zeros only stand in."""

    __slots__ = ("storage", "started", "filled", "adds", "unset")

    def __init__(self, storage, filled=False, unset=None):
        self.storage, self.started, self.filled, self.adds = storage, [], filled, filled
        self.unset = unset
        record.active().zeros.append(self)

    def settle(self):
        """Puts in the zeros that are needed."""
        self.fill()
        self.storage.zero = None

    def fill(self):
        """The same; the first matmul still writes. So it is before a loop at run time."""
        s = self.storage
        s.zero = None
        if not self.filled:
            self._fill_first(s)
        s.zero, self.filled = self, True

    def _fill_first(self, s):
        rec = record.active()
        pending, rec.pending = rec.pending, None
        at, rec.at = rec.at, self.unset or rec.at
        try:
            self._fill(s)
        finally:
            rec.pending, rec.at = pending, at

    def _fill(self, s):
        rec, Tensor = record.active(), record.insn.Tensor
        if not self.started or ("zeros", s.order) in rec.hints:
            record.insn.memset(Tensor(s, s.dtype, (s.parts, s.free), (1, 1)), 0,
                               filler=int(self.unset is not None))
            return
        dtype, left = _left(s.parts, s.free, s.dtype, tuple(
            (v.dtype, v.part, v.off, tuple(v.shape), tuple(v.steps)) for v in self.started))
        for row, end, start, stop in left:
            view = Tensor(s, dtype, (end - row, stop - start), (1, 1), row, start)
            if not record.insn.starts_well(view):  # all is zeroed before the first matmul
                rec.hints["zeros", s.order] = True
                raise record.Redo()
            record.insn.memset(view, 0, filler=int(self.unset is not None))

    def needed(self, view, adds):
        """Whether a matmul needs the zeros before it: it adds to a view, and matmuls have written
        some of it, but not just this view; or what they leave cannot be zeroed later."""
        if view.dyn:
            return True  # of which others may have been written
        if self.filled or ("zeros", self.storage.order) in record.active().hints:
            return not self.filled
        return bool(adds) and not any(_same(view, v) for v in self.started) and \
            any(_meet(view, v) for v in self.started)

    def start(self, view):
        """A matmul is about to add to view. True if it is the first one there, and may write: what
        it would add to is zero."""
        if any(_same(view, v) for v in self.started):
            return False
        fresh = not any(_meet(view, v) for v in self.started)
        self.started.append(view)
        return fresh


def clear_places(rec):
    """Zeros, before all else, where tiles at addresses are read and nothing has written."""
    insn = record.insn
    for key in [k for k in rec.hints if k[0] == "clear" and len(k) > 2]:
        memory, dtype, shape, place = key[1:]
        s = insn.Storage(memory, dtype, shape, "zeros")
        s.place = place
        at, rec.at = rec.at, rec.number_of(rec.hints[key])
        insn.memset(insn.Tensor(s, dtype, (s.parts, s.free), (1, 1)), 0, filler=1)
        rec.at = at


@functools.lru_cache(maxsize=1000)
def _left(parts, free, dtype, written):
    """(a type, [(first row, end, first column, end)] in elements of it): what is left of a tile of
    so many partitions and elements when views of it, (type, part, off, shape, steps), are written.
    Loops write the same views of one tile after another."""
    own, dtype = dtype, min([dtype] + [v[0] for v in written], key=lambda t: t.size)
    free = free * own.size // dtype.size
    done = np.zeros((parts, free), bool)
    flat = np.arange(free * dtype.size)
    for kind, part, off, shape, steps in written:
        block = np.lib.stride_tricks.as_strided(
            flat[off * kind.size:], shape[1:] + (kind.size // dtype.size,),
            [k * kind.size * flat.itemsize for k in steps[1:]] + [dtype.size * flat.itemsize])
        done[part:part + shape[0], block.ravel() // dtype.size] = True
    ends = np.flatnonzero((done[1:] != done[:-1]).any(axis=1)) + 1  # of rows that are the same
    row, left = 0, []
    for end in ends.tolist() + [parts]:
        gaps = np.flatnonzero(np.diff(np.concatenate(([True], done[row], [True])).astype(int)))
        left += [(row, end, int(a), int(b)) for a, b in zip(gaps[::2], gaps[1::2])]
        row = end
    return dtype, left


def _same(a, b):
    """Whether two views of a storage are alike."""
    return (a.part, a.off, a.shape, a.steps) == (b.part, b.off, b.shape, b.steps)


def _meet(a, b):
    """Whether two views may share bytes: by their partitions and the extent of their elements."""
    def span(v):
        reach = [(n - 1) * s for n, s in zip(v.shape[1:], v.steps[1:])]
        return (v.off + sum(x for x in reach if x < 0)) * v.dtype.size, \
            (v.off + sum(x for x in reach if x > 0) + 1) * v.dtype.size
    (low, high), (first, last) = span(a), span(b)
    return low < last and first < high and a.part < b.part + b.shape[0] and \
        b.part < a.part + a.shape[0]
