"""View methods of tensors: the same elements under another shape. Nothing moves.

On the chip dimension 0 is the partitions and stays where it is. What becomes of shapes and steps is
soma_view's, by View._other of the module in C.
"""
import itertools
import operator

from . import dtypes, lib, record
from .checked import between, whole
from .errors import KernelError, NotBuilt
from .layout import dense, product  # noqa: F401 - dense is part of this module
from .register import RegisterValue


def in_same_order(a, b):
    """Whether one of two shapes with as many elements is the other one with dimensions merged, as
    [64, 6] is of [64, 2, 3]; [64, 6] and [6, 64] are not."""
    # The products of the leading sizes: merging leaves some of them out.
    a, b = (set(itertools.accumulate(shape, operator.mul, initial=1)) for shape in (a, b))
    return a <= b or b <= a


def listed(given):
    """Numbers that a call gives one by one, or as one list."""
    one = given[0] if len(given) == 1 else given
    return one if isinstance(one, (tuple, list)) else (one,)


class Views:
    """The view methods; a part of Tensor."""

    __slots__ = ()

    def _at(self, dim, name, chip=False):
        """dim as a number from 0 on; with chip, one that is not the partitions."""
        d = dim + self.ndim if dim < 0 else dim
        if not 0 <= d < self.ndim:
            raise KernelError("%s: dimension %d of a tensor with %d" % (name, dim, self.ndim))
        if chip and d == 0 and self.storage.memory:
            raise KernelError("%s: dimension 0 is the partitions, which stay as they are" % name)
        return d

    def reshape(self, *sizes, shape=None):
        """The same elements in a new shape with the same number of them; one size may be -1."""
        return self._other("reshape", *listed(sizes if shape is None else (shape,)))

    def assert_shape(self, shape):
        """The tensor itself, which must have this shape."""
        if tuple(shape) != self.shape:
            raise KernelError("assert_shape: the shape is %s, not %s"
                              % (list(self.shape), list(shape)))
        return self

    def permute(self, *dims):
        """Dimensions in another order."""
        return self._other("permute", *listed(dims))

    def broadcast(self, dim, size):
        """A dimension of size 1 repeated."""
        return self._other("broadcast", dim, size)

    def expand_dim(self, dim):
        """A new dimension of size 1."""
        dim = between(dim, -self.ndim - 1, self.ndim, "the dimension of expand_dim")
        return self._other("expand_dim", dim + self.ndim + 1 if dim < 0 else dim)

    def squeeze_dim(self, dim):
        """Without a dimension of size 1."""
        return self._other("squeeze_dim", dim)

    def reshape_dim(self, dim, shape):
        """A dimension split into several; one size may be -1."""
        return self._other("reshape_dim", dim, *shape)

    def flatten_dims(self, start_dim, end_dim):
        """Dimensions start_dim .. end_dim as one."""
        return self._other("flatten_dims", start_dim, end_dim)

    def as_tile(self):
        """The tensor itself: every view of memory on the chip is a tile."""
        return self

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None):
        """Dimensions split, ordered and merged by names: t.rearrange(("b", ("h", "w")),
        ("b", "w", "h"), {"h": 4})."""
        known, names, t = dict(fixed_sizes or {}), [], self
        for part in src_pattern:
            group = (part,) if isinstance(part, str) else tuple(part)
            # The one open size is what the others leave.
            if sum(g not in known for g in group) > 1:
                raise KernelError("rearrange: of %s at most one size may be left open" % (group,))
            t = t.reshape_dim(len(names), [known.get(g, -1) for g in group])
            names += group
        order = [g for part in dst_pattern for g in ((part,) if isinstance(part, str) else part)]
        if sorted(order) != sorted(names):
            raise KernelError("rearrange: %s and %s do not have the same names" % (names, order))
        # Ordered before they are merged, since only neighbours merge.
        t = t.permute(tuple(names.index(g) for g in order))
        for at, part in enumerate(dst_pattern):
            if not isinstance(part, str):
                t = t.flatten_dims(at, at + len(part) - 1)
        return t

    def slice(self, dim, start, end, step=1):
        """start .. end - 1 of a dimension."""
        d = self._at(dim, "slice")
        return self[(slice(None),) * d + (slice(start, end, step),)]

    def select(self, dim, index):
        """One element of a dimension, which is removed; a tile keeps its partitions, as t[3] does.
        index may be a register or a 1 x 1 tile, then it is known when the kernel runs."""
        if whole(index) is not None:
            return self._other("select", dim, index)
        d = self._at(dim, "select", chip=True)
        # The register's range must lie in the dimension.
        if isinstance(index, RegisterValue):
            index.stays(d, self.shape[d])
        return self._other("select", d, 0).moved_by(index, self.steps[d])

    def moved_by(self, index, stride):
        """The view moved by index * stride elements when the kernel runs; index is a register, a
        sum of registers, or a 1 x 1 tile of 32-bit integers."""
        if self.has("gather"):
            raise KernelError("the view already has an index that is known when the kernel runs")
        t = self.like(self.shape, self.steps)
        if isinstance(index, RegisterValue):
            index.check()
            t.off += index.const * stride
            # Several registers each add their own.
            t.dyn = self.dyn + tuple(("register", r, k * stride) for r, k in index.terms.items())
        else:
            if index.__class__ is not type(self):
                raise KernelError("%r as an index: it takes a whole number, a register or a tile "
                                  "of one element" % (index,))
            if index.size != 1:
                raise KernelError("an index of %s elements: a scalar offset has one" % index.size)
            t.dyn = self.dyn + (("element", index, stride),)
            # The builder cannot know which elements are read.
            record.active().unknown = True
        return t

    def vector_select(self, dim, vector_offset):
        """Rows of dimension 0 by an index vector (P, 1) in SBUF: row p is row index[p]."""
        if dim != 0 or self.storage.memory:
            raise KernelError("vector_select takes rows of dimension 0 of a tensor in hbm")
        rows = vector_offset.size
        t = self.like((rows,) + self.shape[1:], self.steps)
        return t.gathered(vector_offset, 0, self.shape[0])

    def gathered(self, index, dim, n=None):
        """The view whose dimension dim takes its rows from index, counted from the view's start;
        n: how many there are, if not all that follow."""
        if self.is_indirect():
            raise KernelError("the view already has an index that is known when the kernel runs")
        t = self.like(self.shape, self.steps)
        t.dyn = (("gather", index, dim),)
        row = self.steps[dim]
        s = self.storage
        if dim != 0:
            raise NotBuilt("vector_offset with indirect_dim=%d: it must be 0" % dim)
        if row < 1:
            raise KernelError("rows by an index vector need a positive step, not %d" % row)
        record.active().unknown = True
        declare_rows(record.active(), s, row * self.dtype.size, n)
        return t

    def ap(self, pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0,
           dtype=None):
        """The storage by explicit [step, count] pairs; on the chip the first pair is the
        partitions, whose step is a whole row. offset counts elements of dtype from the view's own
        start."""
        new = self.dtype if dtype is None else dtypes.find(dtype)
        if not isinstance(pattern, (tuple, list)) or not pattern or \
                any(not isinstance(p, (tuple, list)) or len(p) != 2 for p in pattern):
            raise KernelError("ap: pattern=%r: it must be pairs [step, count]" % (pattern,))
        s = self.storage
        if self.has("gather") or (self.dyn and new.size != self.dtype.size):
            raise KernelError("ap of a view with an index that is known when the kernel runs: it "
                              "must be a register, and the type must have the same size")
        # The view's own start in bytes, counted in the new type.
        start, left = divmod(self.offset * self.dtype.size, new.size)
        if left:
            raise KernelError("ap: the view begins at byte %d, which is no whole element of %s"
                              % (self.offset * self.dtype.size, new))
        part, off, bytes_ = 0, start + (offset or 0), s.free * s.dtype.size
        if s.memory:
            row = bytes_ // new.size  # all elements of a partition
            (step, n), *free = pattern
            if n != 1 and step != row:
                raise KernelError("ap: the first step is %s: partitions follow one another, so it "
                                  "must be the %d elements of a row of the storage" % (step, row))
            part, off = divmod(off, row)
            # A tile has two dimensions or more.
            pattern = [(1, n)] + (free or [(1, 1)])
        moved = self._other("ap", new.code, part, off, s.parts, bytes_,
                            *[x for pair in pattern for x in pair])
        moved.dtype = new
        if scalar_offset is not None and vector_offset is not None:
            raise KernelError("ap: scalar_offset and vector_offset cannot be given together")
        if scalar_offset is None and vector_offset is None:
            return moved
        d = self._at(indirect_dim, "ap: indirect_dim")
        # In elements of the new type.
        stride = self.steps[d] * self.dtype.size // new.size
        if scalar_offset is not None:
            if s.memory and d == 0:
                raise KernelError("ap: scalar_offset cannot move the partitions")
            index = scalar_offset if whole(scalar_offset) is None else \
                RegisterValue({}, whole(scalar_offset))
            return moved.moved_by(index, stride)
        if s.memory:
            raise KernelError("ap: vector_offset needs a tensor in hbm")
        # The rows that the vector chooses are as far apart as those of the dimension.
        moved.steps = (stride,) + moved.steps[1:]
        if d:
            raise NotBuilt("ap: vector_offset with indirect_dim=%d: it must be 0" % d)
        return moved.gathered(vector_offset, 0)

    def view(self, dtype):
        """The same bits as another type; the last dimension counts accordingly."""
        new = dtypes.find(dtype)
        if self.dyn and new.size != self.dtype.size:
            raise KernelError("view(%s) of a view with an index that is known when the kernel runs"
                              % new)
        t = self._other("view", new.code)
        t.dtype = new
        return t

    reinterpret_cast = view

    def indirect(self, index, num_elem=None):
        """From trn3: elements of the free dimension by an index tile, the same in all
        partitions."""
        n = index.size if num_elem is None else int(num_elem)
        t = self.like((self.shape[0], n), (self.steps[0], 1))
        t.dyn = (("indirect", index, 0),)
        return t

    def broadcast_steps(self, shape):
        """The view over a larger shape, with sizes of 1 repeated; new dimensions come first among
        the free ones. KernelError if a partition would repeat."""
        at = 1 if self.storage.memory else 0
        # As NumPy does, but behind the partitions.
        more = len(shape) - self.ndim
        mine = self.shape[:at] + (1,) * more + self.shape[at:]
        steps = self.steps[:at] + (0,) * more + self.steps[at:]
        want = tuple(shape) + mine[len(shape):]
        for d, n in enumerate(want):
            if mine[d] != n and (mine[d] != 1 or d < at):
                raise KernelError("shape %s does not broadcast to %s"
                                  % (list(self.shape), list(shape)))
        return self.like(want, [step if n == m else 0 for n, m, step in zip(want, mine, steps)])


def declare_rows(rec, s, row_bytes, n=None):
    """Rows of an indexed tensor are a dimension with which it is declared: the first, or the
    second, of n elements, if an index may choose from n of them alone."""
    total, size, key = s.free * s.dtype.size, s.dtype.size, ("rows", s.order)
    flat = total // row_bytes, row_bytes // size
    before = rec.hints.get(key)
    have, want = s.declared or before or s.shape, flat
    if n and n < flat[0] and not flat[0] % n and ("flat", s.order) not in rec.hints:
        want = flat[0] // n, n, flat[1]
    for form in (want, flat) if s.role == lib.ROLE_CONST else (want,):
        if len(have) <= 8 and product(have[len(form) - 1:]) == flat[1] and \
                (form is flat or have[1] == n):
            return
    if total % row_bytes or row_bytes % size or s.role == lib.ROLE_CONST:
        raise NotBuilt("rows of %d bytes of %r, which has rows of %d bytes"
                       % (row_bytes, s, product(have[1:]) * size))
    if before and (before[-1] != flat[1] or ("flat", s.order) in rec.hints):
        raise NotBuilt("%r is indexed by rows of %d and of %d bytes"
                       % (s, row_bytes, before[-1] * size))
    # Two sizes of rows cannot both be a dimension, but rows of all can serve for either.
    if before:  # rows of the whole tensor serve all
        rec.hints[("flat", s.order)], want = True, flat
    rec.hints[key] = want
    twin = s.twin
    # Before the first use it can still be declared otherwise.
    if not before and s.handle == 0 and not (twin and twin.handle):
        s.declared = want
        return
    if twin:
        if ("rows", twin.order) in rec.peer.hints:
            raise NotBuilt("%r is indexed by rows of another size on core 0" % s)
        rec.peer.hints[("rows", twin.order)] = want
    # The tensor has been declared: the kernel is built again, with what is known now.
    raise record.Redo()
