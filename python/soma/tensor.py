"""Tensors: storage and a view of it.

A Storage is memory: in HBM a number of elements, on the chip (SBUF, PSUM) partitions of a number of
elements each. A Tensor is a view: dtype, shape, and a step in elements for each dimension. On the
chip dimension 0 is the partitions. Views never move data; words() is what the builder takes as an
operand. What is asked of them most is in the module in C: indices by numbers, slices and
expressions, and the words.
"""
import math

import numpy as np

from . import record
from .dtypes import BY_CODE
from .errors import KernelError
from .index import DynSlice, Index  # noqa: F401 - part of this module
from .masks import Mask  # noqa: F401 - part of this module
from .native import _soma
from .indexing import general
from .under import Masked, PastEnd, as_asked
from .views import Views, dense  # noqa: F401 - dense is part of this module

HBM, SBUF, PSUM = 0, 1, 2
MEMORY = ("hbm", "sbuf", "psum")


def _of_site(name, doc):
    """A property of a Storage that its site has."""
    def put(self, value):
        setattr(self.site, name, value)
    return property(lambda self: getattr(self.site, name), put, doc=doc)


class Storage(_soma.Storage):
    """Memory of a kernel. `site` is what it shares with other tiles of the place that made it;
    `handle` the builder's number once an instruction uses it; `twin` the storage of core 0 that
    core 1 shares."""

    __slots__ = ("__dict__",)
    # Attributes that few storages have: kernels make many tiles.
    data = declared = host = twin = None
    role, written = 0, False
    dtype = _of_site("dtype", "The type of its elements.")
    shape = _of_site("shape", "Its shape.")
    parts = _of_site("parts", "Partitions; 0 in HBM.")
    free = _of_site("free", "Elements in each partition on the chip, else all elements.")
    name = _of_site("name", "Its name in messages and in the program.")
    buffer = _of_site("buffer", "The region that the kernel has asked for.")
    at = _of_site("at", "The place that made it, (file, line).")

    def __init__(self, memory, dtype, shape, name="", buffer=None, at=(0, 0)):
        self.memory, self.site = memory, Site(memory, dtype, shape, name, buffer, at)
        self.handle, self.zero, self.order, self.lent = 0, None, 0, False

    def __repr__(self):
        return "%s %s%s in %s" % (self.name or "tensor", self.dtype, list(self.shape),
                                  MEMORY[self.memory])


class Site:
    """A place of the user's source that makes tiles: what they have in common, and what was `asked`
    for, by which the next call knows whether it makes the same tile again. `info` is the builder's;
    `like`: a tile that all are made like."""

    __slots__ = ("memory", "dtype", "shape", "parts", "free", "name", "buffer", "at", "asked",
                 "like", "info")

    def __init__(self, memory, dtype, shape, name, buffer, at):
        self.memory, self.dtype, self.shape, self.name = memory, dtype, shape, name
        self.buffer, self.at = buffer, at
        self.free = math.prod(shape[1 if memory else 0:])
        self.parts = shape[0] if memory else 0
        self.asked = self.like = self.info = None

    def tile(self, rec):
        """A new tile of `rec`."""
        return rec.tile(self.like)

    def repeats(self, asked, s):
        """The site itself, for tiles that are asked for with these words; s is storage of it."""
        self.asked = asked
        self.like = Tensor(s, self.dtype, self.shape, (1,) + dense(self.shape)[1:])
        return self


class Tensor(_soma.View, Views):
    """A view of storage. Made by ndarray(), by indexing, and by the view methods.

    `shape`, `dtype`, `buffer`, `strides` and `offset` (in elements; on the chip the partition
    counts as one row of the storage), `ndim`, `size`, `name`.
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars leave operators to a tile

    # ---- what it is ----

    name = property(lambda self: self.storage.name)
    buffer = property(lambda self: self.storage.buffer)
    _index = general

    def row(self):
        """Elements of this dtype from one partition of the storage to the next."""
        s = self.storage
        return s.free * s.dtype.size // self.dtype.size

    @property
    def strides(self):
        if self.storage.memory:
            return (self.steps[0] * self.row(),) + tuple(self.steps[1:])
        return tuple(self.steps)

    @property
    def offset(self):
        return self.part * self.row() + self.off if self.storage.memory else self.off

    itemsize = property(lambda self: self.dtype.size)

    def __repr__(self):
        return "<%s%s in %s%s>" % (self.dtype, list(self.shape), MEMORY[self.storage.memory],
                                   ", " + self.storage.name if self.storage.name else "")

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        for i in range(self.shape[0]):
            yield self[i]

    def _no_number(self, *args, **kwargs):
        raise TypeError("%r: its values are known when the kernel runs, not while it is built: "
                        "they are not numbers of Python or NumPy" % self)

    __float__ = __int__ = __index__ = __array__ = _no_number

    def __hash__(self):
        return id(self)

    def get_pattern(self):
        return [[step, n] for step, n in zip(self.strides, self.shape)]

    def is_indirect(self):
        return bool(self.dyn)

    def like(self, shape, steps, off=None, part=None):
        """Another view of the same elements' storage."""
        return Tensor(self.storage, self.dtype, tuple(shape), tuple(steps),
                      self.part if part is None else part, self.off if off is None else off,
                      self.dyn)

    # ---- operands ----

    def free_dims(self):
        """Free dimensions of what words() returns."""
        return self.numbers()[6]

    def _dyn_words(self):
        words = []
        moves, other = [d for d in self.dyn if d[0] == "register"], self.dyn
        if moves or sum(d[0] == "element" for d in other) > 1:
            elements = [d for d in other if d[0] == "element"]
            moves += [("register", record.insn.loaded(d[1]), d[2]) for d in elements]
            other = [d for d in other if d[0] not in ("register", "element")]
            if len(moves) == 1 and not moves[0][1].is_float():
                words += (1, moves[0][1].number(), moves[0][2])
            else:
                words += (1,) + record.insn.address_register([d[1:] for d in moves])
        for kind, a, b in other:
            if kind == "element":
                words += (2, b) + a.numbers()
            elif kind == "gather":
                words += (4, self._gathered_dim()) + a.numbers()
            else:
                words += (5,) + a.numbers()
        return tuple(words)

    def _gathered_first(self):
        """The same, if an index vector chooses the rows; else -1."""
        return self._gathered_dim() if self.has("gather") else -1

    def _gathered_dim(self):
        """Of the tensor as it is declared: 0 or 1."""
        shape, size = self.storage.declared or self.storage.shape, self.storage.dtype.size
        return int(math.prod(shape[1:]) * size != self.steps[0] * self.dtype.size)

    def has(self, kind):
        return any(d[0] == kind for d in self.dyn)

    # ---- bounds and masks ----

    def check_bounds(self):
        """For a view by index objects: checks that each index lies in its dimension."""
        if self.bound.__class__ is PastEnd:
            self.bound = None
            return
        for size, index in self.bound:
            low, high = index.bounds()
            if low < 0 or high >= size:
                raise KernelError("index %s runs from %d to %d: the dimension has %d elements; "
                                  "limit it by a mask" % (index.text, low, high, size))
        self.bound = None

    def inside(self):
        """For a view by index objects: whether each index lies in its dimension."""
        ends = [(n, index.bounds()) for n, index in self.bound or ()]
        return all(low >= 0 and high < n for n, (low, high) in ends)

    def cropped(self, ranges):
        """The view with axis a cut to [lo, hi) for each a: (lo, hi) of ranges; axes of size 1 stay.
        """
        shape = list(self.shape)
        cuts = [(a, lo, min(hi, shape[a])) for a, (lo, hi) in ranges.items()
                if a < len(shape) and shape[a] != 1 and (lo or hi < shape[a])]
        if not cuts:
            return self
        part, off = self.part, self.off
        for a, lo, hi in cuts:
            shape[a] = hi - lo
            if a == 0 and self.storage.memory:
                part += lo * self.steps[a]
            else:
                off += lo * self.steps[a]
        bound = self.bound if self.bound.__class__ is list else ()
        return Tensor(self.storage, self.dtype, tuple(shape), self.steps, part, off, self.dyn,
                      [(n, _crop_index(index, cuts)) for n, index in bound] or None)

    # ---- indexing ----

    def _assign(self, key, value):
        """`x[mask] = value`; what else is assigned is for the module in C: the instruction that
        made value writes here instead if it is the last one; otherwise value is copied. A number
        fills."""
        record.active()
        Masked(as_asked(self), key).assign(value)


def shares(a, b):
    """Whether two storages are one memory, or lie at addresses that overlap."""
    if a is b or a.place is None or b.place is None or a.memory != b.memory:
        return a is b
    (p, at), (q, to) = a.place, b.place
    return p < q + b.parts and q < p + a.parts and at < to + b.free * b.dtype.size and \
        to < at + a.free * a.dtype.size


def same_view(a, b):
    """Whether two views are the same elements in the same order."""
    return (a.storage is b.storage and a.part == b.part and a.off == b.off and a.dtype is b.dtype
            and len(a.dyn) == len(b.dyn) and _squeezed(a) == _squeezed(b)
            and all(x[0] == y[0] and x[1] is y[1] and x[2] == y[2] for x, y in zip(a.dyn, b.dyn)))


def _squeezed(t):
    return [(n, s) for n, s in zip(t.shape, t.steps) if n != 1]


def _kind_of(code):
    """What the module in C must know of a type: 1 if it is a float, 2 if Python views it as another
    type where it is a predicate."""
    dtype = BY_CODE.get(code)
    return 0 if dtype is None else 1 if dtype.float else \
        2 if dtype.kind == "b" or dtype.name == "int8" else 0


_soma.use(Storage=Storage, View=Tensor, same_view=same_view, shares=shares, float32=np.float32,
          floats=bytes(map(_kind_of, range(256))))


def _crop_index(index, cuts):
    size, at = list(index.size), index.const
    for a, lo, hi in cuts:
        if a < len(size) and size[a] != 1 and index.coef[a]:
            at += index.coef[a] * lo
            size[a] = min(hi, size[a]) - lo
    return Index(index.coef, size, at, index.said)
