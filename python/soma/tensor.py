"""Tensors: storage and a view of it.

A Storage is memory: in HBM a number of elements, on the chip (SBUF, PSUM) partitions of a number of
elements each. A Tensor is a view: dtype, shape, and a step in elements for each dimension. On the
chip dimension 0 is the partitions. Views never move data; words() is what the builder takes as an
operand.
"""
import math
import struct

from . import record
from .errors import KernelError
from .kernel import PACK, pack
from .index import Axes, DynSlice, Index, Mask
from .record import recorders
from .views import Views, dense  # noqa: F401 - dense is part of this module

HBM, SBUF, PSUM = 0, 1, 2
_new = object.__new__
_pack2, _pack6, _pack9, _pack11 = PACK[2], PACK[6], PACK[9], PACK[11]
MEMORY = ("hbm", "sbuf", "psum")


def _of_site(name, doc):
    """A property of a Storage that its site has."""
    def put(self, value):
        setattr(self.site, name, value)
    return property(lambda self: getattr(self.site, name), put, doc=doc)


class Storage:
    """Memory of a kernel. `site` is what it shares with other tiles of the place that made it;
    `handle` the builder's number once an instruction uses it; `twin` the storage of core 0 that
    core 1 shares."""

    __slots__ = ("memory", "site", "handle", "zero", "order", "lent", "__dict__")
    # Attributes that few storages have: kernels make many tiles.
    place = data = declared = host = twin = None
    left = None  # of a result under a mask: what assigns only the part that the mask leaves
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
    for, by which the next call knows whether it makes the same tile again. `info` is the builder's.
    A tile's words are `length`, its number, and `rest`."""

    __slots__ = ("memory", "dtype", "shape", "parts", "free", "name", "buffer", "at", "asked",
                 "steps", "info", "length", "rest")

    def __init__(self, memory, dtype, shape, name, buffer, at):
        self.memory, self.dtype, self.shape, self.name = memory, dtype, shape, name
        self.buffer, self.at = buffer, at
        self.free = math.prod(shape[1 if memory else 0:])
        self.parts = shape[0] if memory else 0
        self.asked = self.steps = self.info = None
        self.length = 0

    def tile(self, rec):
        """A new tile of `rec`."""
        s = _new(Storage)
        s.memory = self.memory
        s.site = self
        s.handle = 0
        s.zero = None
        s.lent = False
        rec.numbering = s.order = rec.numbering + 1
        if rec.early and s.order in rec.early:
            rec.begin_with_zeros(s)
        t = _new(Tensor)
        t.storage = s
        t.dtype = self.dtype
        t.shape = self.shape
        t.steps = self.steps
        t.part = t.off = 0
        t.dyn = ()
        t._words = self
        t.bound = t._parts = t.pending = None
        return t

    def repeats(self, asked):
        """The site itself, for tiles that are asked for with these words."""
        self.asked, self.steps = asked, (1,) + dense(self.shape)[1:]
        return self

    def learn(self, t):
        """Keeps the words that all these tiles have in common; t is one of them."""
        words = t._make_words(True)
        self.length, self.rest = words[0], pack(words[2:])


class Tensor(Views):
    """A view of storage. Made by ndarray(), by indexing, and by the view methods.

    `shape`, `dtype`, `buffer`, `strides` and `offset` (in elements; on the chip the partition
    counts as one row of the storage), `ndim`, `size`, `name`.
    """

    __slots__ = ("storage", "dtype", "shape", "steps", "part", "off", "dyn", "bound", "_words",
                 "_parts", "pending", "__weakref__")
    __array_ufunc__ = None  # NumPy's scalars leave operators to a tile

    def __init__(self, storage, dtype, shape, steps, part=0, off=0, dyn=(), bound=None):
        self.storage, self.dtype, self.shape, self.steps = storage, dtype, shape, steps
        self.part, self.off, self.dyn, self.bound = part, off, dyn, bound
        self._words = self._parts = self.pending = None

    # ---- what it is ----

    ndim = property(lambda self: len(self.shape))
    name = property(lambda self: self.storage.name)
    buffer = property(lambda self: self.storage.buffer)
    memory = property(lambda self: self.storage.memory)

    @property
    def size(self):
        n = 1
        for s in self.shape:
            n *= s
        return n

    @property
    def free_size(self):
        """Elements in each partition (in HBM: all)."""
        shape = self.shape
        if self.storage.memory:
            if len(shape) == 2:
                return shape[1]
            shape = shape[1:]
        n = 1
        for s in shape:
            n *= s
        return n

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

    def is_contiguous(self):
        """Whether the elements (of a partition) lie densely in row-major order."""
        at = 1 if self.storage.memory else 0
        n = 1
        for s, step in zip(reversed(self.shape[at:]), reversed(self.steps[at:])):
            if s != 1 and step != n:
                return False
            n *= s
        return True

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

    def words(self):
        """The operand in the builder's words (soma_kernel.h), packed, dimensions merged where they
        can be."""
        w, s = self._words, self.storage
        if w.__class__ is not bytes or s.zero is not None:
            if self.bound is not None:
                self.check_bounds()
            if s.handle == 0:
                recorders[0].declare(s)
            if s.zero is not None:
                s.zero.settle()
            shape = self.shape
            if w.__class__ is Site:  # all of a tile
                if not w.length:
                    w.learn(self)
                w = self._words = _pack2(w.length, s.handle) + w.rest
            elif isinstance(w, Alike):
                if not w.length:
                    w.learn(self)
                dtype = self.dtype
                w = self._words = _pack6(w.length, s.handle, dtype.code, self.part, w.parts,
                                         self.off * dtype.size) + w.rest
            elif len(shape) == 2 and s.memory and self.steps[0] == 1 == self.steps[1] and \
                    not self.dyn:  # by far the most frequent view
                dtype = self.dtype
                try:
                    w = self._words = _pack9(8, s.handle, dtype.code, self.part, shape[0],
                                             self.off * dtype.size, 1, 1, shape[1])
                except struct.error:
                    w = pack(self._make_words(True))  # which says what does not fit
            elif len(shape) == 2 and not s.memory and not self.dyn:
                n, m = shape
                step, by = self.steps
                at = self.off * self.dtype.size
                if m == 1:
                    n, m, by = 1, n, step
                elif step == by * m and n * m < 65536:
                    n, m = 1, n * m
                if m == 1:
                    by = 1
                try:
                    if n == 1:
                        w = _pack9(8, s.handle, self.dtype.code, 0, 0, at, 1, by, m)
                    else:
                        w = _pack11(10, s.handle, self.dtype.code, 0, 0, at, 2, step, n, by, m)
                except struct.error:
                    w = pack(self._make_words(True))
                self._words = w
            else:
                w = pack(self._make_words(True))
                if not self.dyn:  # a register may have ended, and a sum is computed anew
                    self._words = w
        return w

    def exact_words(self):
        """The same with every free dimension as it is (in HBM: every dimension)."""
        return pack(self._make_words(False))

    def free_dims(self):
        """Free dimensions of what words() returns."""
        return self._make_words(True)[6]

    def _make_words(self, merge):
        if self.bound is not None:
            self.check_bounds()
        s = self.storage
        if s.handle == 0:
            record.active().declare(s)
        if s.zero is not None:
            s.zero.settle()
        shape, steps = self.shape, self.steps
        if merge and s.memory and len(shape) == 2 and (steps[0] == 1 or shape[0] == 1) and \
                not self.dyn:
            n = shape[1]
            return (8, s.handle, self.dtype.code, self.part, shape[0], self.off * self.dtype.size,
                    1,
                    steps[1] if n != 1 else 1, n)
        dims = []
        parts = part = at = 0
        if s.memory:
            at, parts, part = 1, shape[0], self.part
            if steps[0] != 1 and parts != 1:
                raise KernelError("the partitions of an operand follow one another: their step "
                                  "must be 1, not %d" % steps[0])
        elif self.dyn and self.has("gather"):  # its dimension is the first, as it is
            at, dims = 1, [1, 1] * self._gathered_dim() + [steps[0], shape[0]]
        step = num = 0
        for i in range(at, len(shape)):
            n = shape[i]
            if merge:
                if n == 1:
                    continue
                t = steps[i]
                if num and step == t * n and num * n < 65536:
                    num, step = num * n, t
                    continue
                if num:
                    dims += (step, num)
                step, num = t, n
            else:
                dims += (steps[i], n)
        if num:
            dims += (step, num)
        if not dims:
            dims = [1, 1]
        dyn = self._dyn_words() if self.dyn else ()
        return (6 + len(dims) + len(dyn), s.handle, self.dtype.code, part, parts,
                self.off * self.dtype.size, len(dims) // 2) + tuple(dims) + tuple(dyn)

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
                words += (2, b) + a._make_words(True)
            elif kind == "gather":
                words += (4, self._gathered_dim()) + a._make_words(True)
            else:
                words += (5,) + a._make_words(True)
        return words

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
        shape, steps = self.shape, self.steps
        for a, (lo, hi) in ranges.items():
            if a < len(shape) and shape[a] != 1 and (lo or hi < shape[a]):
                break
        else:
            return self
        shape = list(shape)
        part, off = self.part, self.off
        bound = self.bound if self.bound.__class__ is list else None
        for a, (lo, hi) in ranges.items():
            if a >= len(shape) or shape[a] == 1:
                continue
            hi = min(hi, shape[a])
            if lo:
                if a == 0 and self.storage.memory:
                    part += lo * steps[a]
                else:
                    off += lo * steps[a]
            shape[a] = hi - lo
            if bound:
                bound = [(size, _crop_index(index, a, lo, hi)) for size, index in bound]
        return Tensor(self.storage, self.dtype, tuple(shape), steps, part, off, self.dyn, bound)

    # ---- indexing ----

    def __getitem__(self, key):
        parts = self._parts
        chip = self.storage.memory
        if key.__class__ is tuple and len(key) == 2:
            a, b = key  # loops take the same part of a tile again and again
            if a.__class__ is Index is b.__class__:
                ids = id(a), id(b)
                if parts is not None and ids in parts:
                    return parts[ids][0]
                if self.bound is None:
                    t = of_two(self, a, b)
                    if t is not None:
                        if not chip and a.kept and b.kept:  # as they are: they come again
                            self._keep(ids, key, t)
                        return t
            elif parts is not None and a.__class__ is slice is b.__class__ and \
                    a.step is None is b.step:
                try:
                    t = parts.get((a.start, a.stop, b.start, b.stop))
                    if t is not None:
                        return t
                except TypeError:
                    pass
        if key.__class__ is not tuple:
            if key.__class__ is Mask:
                return Masked(as_asked(self), key)
            if key is Ellipsis and self.bound is None and not self.dyn:
                return self
            key = tuple(key) if isinstance(key, tuple) else (key,)
        shape, steps = self.shape, self.steps
        off, part = self.off, self.part
        if len(shape) == 2 == len(key):  # by far the most frequent
            a, b = key
            if a.__class__ is slice is b.__class__ and a.step is None is b.step:
                start, stop, first, last = a.start, a.stop, b.start, b.stop
                if start is None:
                    start = 0
                if stop is None:
                    stop = shape[0]
                if first is None:
                    first = 0
                if last is None:
                    last = shape[1]
                if start.__class__ is int is stop.__class__ and 0 <= start < stop <= shape[0] and \
                        first.__class__ is int is last.__class__ and 0 <= first < last <= shape[1] \
                        and self.bound is None and not self.dyn:
                    t = _new(Tensor)
                    t.storage, t.dtype, t.shape, t.steps = \
                        self.storage, self.dtype, (stop - start, last - first), steps
                    if chip:
                        t.part, t.off = part + start * steps[0], off + first * steps[1]
                    else:
                        t.part, t.off = part, off + start * steps[0] + first * steps[1]
                    t.dyn, t.bound, t._words, t.pending, t._parts = (), None, None, None, None
                    if parts is None or len(parts) > 1000:
                        self._parts = parts = {}
                    parts[a.start, a.stop, b.start, b.stop] = t
                    return t
        if self.bound is not None:
            self.check_bounds()
        if len(key) > len(shape) or self.dyn:
            return self._index(key)
        out, outsteps = [], []
        d = 0
        for k in key:
            n, step = shape[d], steps[d]
            kind = k.__class__
            if kind is slice:
                start, stop, by = k.start, k.stop, k.step
                if by is None:
                    if start is None:
                        if stop is None:
                            out.append(n)
                            outsteps.append(step)
                            d += 1
                            continue
                        start = 0
                    elif stop is None:
                        stop = n
                    if start.__class__ is not int or stop.__class__ is not int or \
                            not 0 <= start < stop <= n:
                        return self._index(key)
                    n = stop - start
                    by = step
                else:
                    if start.__class__ is not int or stop.__class__ is not int or \
                            by.__class__ is not int or not 0 <= start < stop <= n or by < 1:
                        return self._index(key)
                    n = (stop - start + by - 1) // by
                    by *= step
                if start:
                    if d == 0 and chip:
                        part += start * step
                    else:
                        off += start * step
                out.append(n)
                outsteps.append(by)
            elif kind is int:
                if k < 0:
                    k += n
                if not 0 <= k < n:
                    raise KernelError("index %d of dimension %d, which has %d elements" % (k, d, n))
                if d == 0 and chip:
                    part += k * step
                    out.append(1)
                    outsteps.append(1)
                else:
                    off += k * step
            elif kind is DynSlice:
                start, size = k.start, k.size
                if start.__class__ is not int or size.__class__ is not int or start < 0 or \
                        size < 1 or start + size > n:
                    return self._index(key)
                if start:
                    if d == 0 and chip:
                        part += start * step
                    else:
                        off += start * step
                out.append(size)
                outsteps.append(step)
            else:
                return self._index(key)
            d += 1
        if d < len(shape):
            out += shape[d:]
            outsteps += steps[d:]
        if len(out) < 2 and (chip or not out):
            out.append(1)
            outsteps.append(1)
        t = _new(Tensor)
        t.storage, t.dtype, t.shape, t.steps = self.storage, self.dtype, tuple(out), tuple(outsteps)
        t.part, t.off, t.dyn, t.bound, t._words = part, off, (), None, None
        t.pending = t._parts = None
        return t

    def _index(self, key):
        t = of_many(self, key)
        return general(self, key) if t is None else t

    def _keep(self, ids, key, view):
        """Keeps the view that two index objects make."""
        if self._parts is None or len(self._parts) > 1000:
            self._parts = {}
        self._parts[ids] = view, key  # which keeps the ids

    def __setitem__(self, key, value):
        """`x[...] = value`: the instruction that made value writes here instead if it is the last
        one; otherwise value is copied. A number fills."""
        if key.__class__ is Mask:
            return Masked(as_asked(self), key).assign(value)
        rec = record.active()
        view = self[key]
        if value.__class__ is Tensor:
            if value.storage is view.storage and same_view(value, view):
                return
            if value.pending is not None:
                if rec.retarget(value.pending, value, view):
                    return
                if value.storage.left is not None:
                    return value.storage.left(view, value)
        rec.assign(view, value)


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


def _crop_index(index, axis, lo, hi):
    if axis >= index.ndim or index.size[axis] == 1 or not index.coef[axis]:
        return index
    size = list(index.size)
    size[axis] = min(hi, size[axis]) - lo
    return Index(Axes(index.coef, size), index.const + index.coef[axis] * lo, index.said)


from .indexing import Alike, general, of_many, of_two  # noqa: E402 - which imports this module
from .under import Masked, PastEnd, as_asked  # noqa: E402
