"""View methods of tensors: the same elements under another shape. Nothing moves.

On the chip dimension 0 is the partitions and stays where it is.
"""
from . import dtypes, lib
from .checked import between, whole
from .errors import KernelError, NotBuilt
from .layout import dense, product
from .register import RegisterValue

_MOST = (1 << 62) - 1  # elements of a view


def in_same_order(a, b):
    """Whether one of two shapes with as many elements is the other one with dimensions merged, as
    [64, 6] is of [64, 2, 3]; [64, 6] and [6, 64] are not."""
    # The products of the leading sizes: merging leaves some of them out.
    def ends(shape):
        n, found = 1, {1}
        for size in shape:
            n *= size
            found.add(n)
        return found
    a, b = ends(a), ends(b)
    return a <= b or b <= a


def _whole_shape(shape):
    if not isinstance(shape, (tuple, list)):
        shape = (shape,)
    sizes = [getattr(s, "size", s) if s.__class__.__name__ == "ParDim" else whole(s) for s in shape]
    if None in sizes:
        raise KernelError("shape %s: sizes must be whole numbers" % list(shape))
    return sizes


def reshape_steps(shape, steps, new):
    """Steps of the new shape over the same elements, or None if that needs a copy."""
    # Sizes of 1 have no step that matters.
    old = [(n, s) for n, s in zip(shape, steps) if n != 1]
    out, at, step = [], 0, 0
    want = [n for n in new if n != 1]
    i = 0
    while i < len(want):
        if at >= len(old):
            return None
        # The shortest runs of old and of new dimensions with the same number of elements.
        m, j, n, k = old[at][0], at + 1, want[i], i + 1
        while m != n:
            if m < n:
                if j == len(old):
                    return None
                m *= old[j][0]
                j += 1
            else:
                if k == len(want):
                    return None
                n *= want[k]
                k += 1
        # Old dimensions are one only where each step is what the next ones cover.
        for a in range(at, j - 1):
            if old[a][1] != old[a + 1][1] * old[a + 1][0]:
                return None
        # The new ones of this run are dense over the innermost old step.
        step = old[j - 1][1]
        run = []
        for size in reversed(want[i:k]):
            run.append(step)
            step *= size
        out += reversed(run)
        at, i = j, k
    steps, after = [], 1  # one element's step is the size of what follows, as in a dense order
    for n in reversed(new):
        steps.append(after if n == 1 else out.pop())
        after = steps[-1] * n
    return tuple(reversed(steps))


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

    def _not_gathered(self, name, d=None):
        if self.has("gather") and (d is None or d == 0):
            raise KernelError("%s: the dimension takes its rows from an index vector" % name)

    def reshape(self, *sizes, shape=None):
        """The same elements in a new shape with the same number of them; one size may be -1."""
        new = shape if shape is not None else sizes
        if len(new) == 1 and isinstance(new[0], (tuple, list)):
            new = new[0]
        if self.bound is not None:
            # Indices past the end have no elements to be put elsewhere.
            self.check_bounds()
        new = _whole_shape(new)
        if -1 in new:
            rest = product(n for n in new if n != -1)
            # max: a size of 0 is an error below, and no division by it here.
            new[new.index(-1)] = self.size // max(rest, 1)
        if product(new) != self.size:
            raise KernelError("reshape of %s to %s: %d elements are not %d"
                              % (list(self.shape), new, self.size, product(new)))
        # An index vector moves whole rows, so those stay rows.
        if self.dyn and new[0] != self.shape[0]:
            self._not_gathered("reshape")
        if self.storage.memory:
            if new[0] != self.shape[0]:
                raise KernelError("reshape of %s to %s: dimension 0 is the partitions, which stay "
                                  "%d"
                                  % (list(self.shape), new, self.shape[0]))
            steps = reshape_steps(self.shape[1:], self.steps[1:], new[1:])
            steps = steps if steps is None else (self.steps[0],) + steps
        else:
            steps = reshape_steps(self.shape, self.steps, new)
        if steps is None:
            raise KernelError("reshape of %s with steps %s to %s needs a copy"
                              % (list(self.shape), list(self.steps), new))
        return self.like(new, steps)

    def assert_shape(self, shape):
        """The tensor itself, which must have this shape."""
        if tuple(shape) != self.shape:
            raise KernelError("assert_shape: the shape is %s, not %s"
                              % (list(self.shape), list(shape)))
        return self

    def permute(self, *dims):
        """Dimensions in another order."""
        dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
        if sorted(dims) != list(range(self.ndim)):
            raise KernelError("permute%s is not an order of %d dimensions"
                              % (tuple(dims), self.ndim))
        # Dimension 0 must stay: partitions, or rows that an index vector takes.
        if (self.storage.memory or self.has("gather")) and dims[0] != 0:
            raise KernelError("permute%s: dimension 0 is the partitions and stays first"
                              % (tuple(dims),))
        return self.like([self.shape[d] for d in dims], [self.steps[d] for d in dims])

    def broadcast(self, dim, size):
        """A dimension of size 1 repeated."""
        d = self._at(dim, "broadcast", chip=True)
        if self.shape[d] != 1:
            raise KernelError("broadcast of dimension %d, which has %d elements, not 1"
                              % (d, self.shape[d]))
        shape, steps = list(self.shape), list(self.steps)
        # Step 0: each index is the same element.
        shape[d], steps[d] = size, 0
        return self.like(shape, steps)

    def expand_dim(self, dim):
        """A new dimension of size 1."""
        dim = between(dim, -self.ndim - 1, self.ndim, "the dimension of expand_dim")
        d = dim + self.ndim + 1 if dim < 0 else dim
        if d == 0 and self.storage.memory:
            raise KernelError("expand_dim(0): dimension 0 is the partitions")
        self._not_gathered("expand_dim", d)
        return self.like(self.shape[:d] + (1,) + self.shape[d:],
                         self.steps[:d] + (0,) + tuple(self.steps[d:]))

    def squeeze_dim(self, dim):
        """Without a dimension of size 1."""
        d = self._at(dim, "squeeze_dim", chip=True)
        if self.shape[d] != 1:
            raise KernelError("squeeze_dim of dimension %d, which has %d elements"
                              % (d, self.shape[d]))
        return self.like(self.shape[:d] + self.shape[d + 1:], self.steps[:d] + self.steps[d + 1:])

    def reshape_dim(self, dim, shape):
        """A dimension split into several; one size may be -1."""
        d = self._at(dim, "reshape_dim")
        shape = list(shape)
        if -1 in shape:
            # A size that does not divide shows in the product.
            shape[shape.index(-1)] = self.shape[d] // max(product(n for n in shape if n != -1), 1)
        if product(shape) != self.shape[d]:
            raise KernelError("reshape_dim: %s has %d elements, dimension %d has %d"
                              % (shape, product(shape), d, self.shape[d]))
        # The partitions may be `split` into one dimension: then nothing happens.
        if len(shape) > 1:
            d = self._at(dim, "reshape_dim", chip=True)
        steps = tuple(s * self.steps[d] for s in dense(shape))
        return self.like(self.shape[:d] + tuple(shape) + self.shape[d + 1:],
                         self.steps[:d] + steps + self.steps[d + 1:])

    def flatten_dims(self, start_dim, end_dim):
        """Dimensions start_dim .. end_dim as one."""
        a, b = self._at(start_dim, "flatten_dims", chip=True), self._at(end_dim, "flatten_dims")
        n = product(self.shape[a:b + 1])
        steps = reshape_steps(self.shape[a:b + 1], self.steps[a:b + 1], [n])
        if steps is None:
            raise KernelError("flatten_dims(%d, %d) of steps %s: they are not dense"
                              % (start_dim, end_dim, list(self.steps)))
        return self.like(self.shape[:a] + (n,) + self.shape[b + 1:],
                         self.steps[:a] + steps + self.steps[b + 1:])

    def as_tile(self):
        """The tensor itself: every view of memory on the chip is a tile."""
        return self

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None):
        """Dimensions split, ordered and merged by names: t.rearrange(("b", ("h", "w")),
        ("b", "w", "h"), {"h": 4})."""
        known = dict(fixed_sizes or {})
        names, t = [], self
        for d, part in enumerate(src_pattern):
            group = (part,) if isinstance(part, str) else tuple(part)
            # The one open size is what the others leave.
            free = [g for g in group if g not in known]
            have = product(known[g] for g in group if g in known)
            if len(free) > 1:
                raise KernelError("rearrange: of %s at most one size may be left open" % (group,))
            if free:
                known[free[0]] = self.shape[d] // have
            t = t.reshape_dim(len(names), [known[g] for g in group])
            names += group
        order = [g for part in dst_pattern for g in ((part,) if isinstance(part, str) else part)]
        if sorted(order) != sorted(names):
            raise KernelError("rearrange: %s and %s do not have the same names" % (names, order))
        # Ordered before they are merged, since only neighbours merge.
        t = t.permute(tuple(names.index(g) for g in order))
        at = 0
        for part in dst_pattern:
            n = 1 if isinstance(part, str) else len(part)
            if n > 1:
                t = t.flatten_dims(at, at + n - 1)
            at += 1
        return t

    def slice(self, dim, start, end, step=1):
        """start .. end - 1 of a dimension."""
        d = self._at(dim, "slice")
        return self[(slice(None),) * d + (slice(start, end, step),)]

    def select(self, dim, index):
        """One element of a dimension, which is removed; index may be a register or a 1 x 1 tile,
        then it is known when the kernel runs."""
        d = self._at(dim, "select")
        if whole(index) is not None:
            k = whole(index)
            if not 0 <= k < self.shape[d]:
                raise KernelError("select: index %d of dimension %d, which has %d elements"
                                  % (k, d, self.shape[d]))
            # A slice of one element checks and moves; the dimension goes below.
            t = self[(slice(None),) * d + (slice(k, k + 1),)]
        else:
            d = self._at(dim, "select", chip=True)
            # The register's range must lie in the dimension.
            if isinstance(index, RegisterValue):
                index.stays(d, self.shape[d])
            t = self[(slice(None),) * d + (slice(0, 1),)]
            t = t.moved_by(index, self.steps[d])
        return t.like(t.shape[:d] + t.shape[d + 1:], t.steps[:d] + t.steps[d + 1:])

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
            from . import record
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
        from . import record
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
        shape = tuple(between(n, 1, _MOST, "ap: the count of a pair") for _, n in pattern)
        steps = [between(s, -_MOST, _MOST, "ap: the step of a pair") for s, _ in pattern]
        s = self.storage
        moved = self.like(shape, steps)
        if self.has("gather") or (self.dyn and new.size != self.dtype.size):
            raise KernelError("ap of a view with an index that is known when the kernel runs: it "
                              "must be a register, and the type must have the same size")
        moved.dtype = new
        # The view's own start in bytes, counted in the new type.
        start = self.offset * self.dtype.size // new.size + (offset or 0)
        if s.memory:
            row = moved.row()  # all elements of a partition
            if shape[0] > 1 and steps[0] != row:
                raise KernelError("ap: the first step is %d: partitions follow one another, so it "
                                  "must be the %d elements of a row of the storage"
                                  % (steps[0], row))
            moved.part, moved.off = divmod(start, row)
            moved.steps = (1,) + tuple(steps[1:])
            # A tile has two dimensions or more.
            if len(shape) == 1:
                moved.shape, moved.steps = shape + (1,), moved.steps + (1,)
        else:
            moved.off, moved.steps = start, tuple(steps)
        moved._inside("ap")
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

    def _inside(self, name):
        """Checks that a static view lies in its storage."""
        at = 1 if self.storage.memory else 0
        # The outermost elements, whichever way each step goes.
        span = [(n - 1) * s for n, s in zip(self.shape[at:], self.steps[at:])]
        low = self.off + sum(x for x in span if x < 0)
        high = self.off + sum(x for x in span if x > 0)
        if low < 0 or high >= self.row():
            raise KernelError("%s: elements %d to %d: %s has 0 to %d"
                              % (name, low, high, "a partition" if at else "the tensor",
                                 self.row() - 1))
        if at and self.part + self.shape[0] > self.storage.parts:
            raise KernelError("%s: partitions %d to %d: the storage has %d"
                              % (name, self.part, self.part + self.shape[0] - 1,
                                 self.storage.parts))

    def view(self, dtype):
        """The same bits as another type; the last dimension counts accordingly."""
        new = dtypes.find(dtype)
        a, b = self.dtype.size, new.size
        if self.bound is not None:
            self.check_bounds()
        t = self.like(self.shape, self.steps)
        t.dtype = new
        if a == b:
            return t
        if self.dyn:
            raise KernelError("view(%s) of a view with an index that is known when the kernel runs"
                              % new)
        shape, steps = list(self.shape), list(self.steps)
        last = len(shape) - 1
        if shape[last] != 1 and steps[last] != 1:
            raise KernelError("view(%s): the last dimension has step %d, not 1"
                              % (new, steps[last]))
        # The last dimension is cut or joined; each step and the place must be whole elements of
        # the new type.
        if shape[last] * a % b or self.off * a % b or \
                any(steps[d] * a % b for d in range(1 if self.memory else 0, last) if shape[d] > 1):
            raise KernelError("view(%s) of %s elements of %s: they do not divide into %d bytes"
                              % (new, shape[last], self.dtype, b))
        for d in range(1 if self.memory else 0, last):
            steps[d] = steps[d] * a // b
        shape[last], steps[last] = shape[last] * a // b, 1
        t.shape, t.steps, t.off = tuple(shape), tuple(steps), self.off * a // b
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
        mine, steps = list(self.shape), list(self.steps)
        at = 1 if self.storage.memory else 0
        # As NumPy does, but behind the partitions.
        while len(mine) < len(shape):
            mine.insert(at, 1)
            steps.insert(at, 0)
        for d, n in enumerate(shape):
            if mine[d] == n:
                continue
            if mine[d] != 1 or (d == 0 and at):
                raise KernelError("shape %s does not broadcast to %s"
                                  % (list(self.shape), list(shape)))
            mine[d], steps[d] = n, 0
        return self.like(mine, steps)


def declare_rows(rec, s, row_bytes, n=None):
    """Rows of an indexed tensor are a dimension with which it is declared: the first, or the
    second, of n elements, if an index may choose from n of them alone."""
    from . import record
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
