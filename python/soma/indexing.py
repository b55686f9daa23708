"""Indexing beyond whole-number slices: ellipsis, negative and open bounds, registers, index
objects, and index tiles in SBUF."""
from . import tensor as T
from .checked import whole
from .errors import KernelError, NotBuilt
from .index import DynSlice, Index, Mask
from .register import IndexAt, RegisterValue
from .under import Masked, PastEnd, as_asked


def _expand(t, key):
    """key with one entry for each dimension."""
    dots = [i for i, k in enumerate(key) if k is Ellipsis]
    if len(dots) > 1:
        raise KernelError("an index can have at most one ...")
    if dots:
        missing = len(t.shape) - len(key) + 1
        key = key[:dots[0]] + (slice(None),) * missing + key[dots[0] + 1:]
    if len(key) > len(t.shape):
        raise KernelError("%d indices for a tensor with %d dimensions" % (len(key), len(t.shape)))
    return key + (slice(None),) * (len(t.shape) - len(key))


def general(t, key):
    """t[key] for any key; the module in C has the usual ones."""
    if key.__class__ is Mask:
        return Masked(as_asked(t), key)
    if t.bound is not None:
        # With its indices in range it is a plain view.
        t.check_bounds()
        return t[key]
    key = tuple(key) if isinstance(key, tuple) else (key,)
    if any(k is None for k in key):
        return _with_new_axes(t, key)
    key = _expand(t, key)
    if any(k.__class__ is range for k in key):
        key = _of_ranges(t, key)
    # A tile of one element is a scalar, and no index tile.
    if any(isinstance(k, (Index, IndexAt, T.Tensor)) and not _scalar(k) for k in key):
        if any(_start_of(k) is not None for k in key):
            return _moved(t, key)
        return _advanced(t, key).build(key)
    return _basic(t, key)


def _start_of(k):
    """The register that an entry of a key begins at; None if none does."""
    start = k if isinstance(k, RegisterValue) else getattr(k, "start", None)
    return start if isinstance(start, RegisterValue) else None


def _moved(t, key):
    """A key with index objects and registers: the view from 0 on, moved."""
    fixed = []
    for d, k in enumerate(key):
        if _start_of(k) is None:
            fixed.append(k)
        elif d == 0 and t.storage.memory:
            raise KernelError("%r: the partitions of an operand must be known while the kernel is "
                              "built" % (k,))
        elif isinstance(k, (slice, DynSlice)):
            _, count, by = _range(k, t.shape[d], d)
            # Up to the last element that is read, no further.
            fixed.append(slice(0, (count - 1) * by + 1, by))
        else:
            fixed.append(k.index if isinstance(k, IndexAt) else 0)
    view = t[tuple(fixed)]
    if view.bound is not None:
        raise NotBuilt("an index past the end, limited by a mask, with a register")
    for d, k in enumerate(key):
        if _start_of(k) is not None:
            # How far the entry reaches from the register: all of it must lie in the dimension.
            reach = (0, 0)
            if isinstance(k, IndexAt):
                reach = k.index.bounds()
            elif isinstance(fixed[d], slice):
                reach = 0, fixed[d].stop - 1
            _start_of(k).stays(d, t.shape[d], *reach)
            view = view.moved_by(_start_of(k), t.steps[d])
    return view


def _of_ranges(t, key):
    """A key with ranges, such as nl.affine_range(8), each of which means its elements as a slice
    does. With a number apart from a range NumPy would move the dimension."""
    at = [d for d, k in enumerate(key) if k.__class__ is range]
    fixed = [d for d, k in enumerate(key) if not isinstance(k, slice)]
    # One range with numbers beside it is a slice by NumPy's rule as well; two would be paired.
    if len(fixed) > len(at) and (len(at) > 1 or fixed[-1] - fixed[0] >= len(fixed) or any(
            whole(key[d]) is None for d in fixed if d not in at)):
        raise NotBuilt("index %s: ranges are taken beside slices, or one with numbers next to it; "
                       "use slices or nl.arange" % (key,))
    for d in at:
        if not key[d] or min(key[d]) < 0 or max(key[d]) >= t.shape[d]:
            raise KernelError("index %s of dimension %d, which has %d elements"
                              % (key[d], d, t.shape[d]))
    return tuple(slice(k.start, k.stop, k.step) if k.__class__ is range else k for k in key)


def _with_new_axes(t, key):
    """A key with None, which is a new axis of size 1. A reduced tile, which keeps a last dimension
    of one element, has that axis already: nl.sum(x, axis=1)[:, None]."""
    if len(key) == 2 and key[1] is None and key[0] == slice(None) and len(t.shape) == 2 and \
            t.shape[1] == 1:
        return t
    if any(isinstance(k, (Index, T.Tensor, int)) for k in key):
        raise KernelError("indexing with None and %s: use expand_dim" % (key,))
    view = t[tuple(k for k in key if k is not None)]
    at = 0
    for i, k in enumerate(key):
        if k is Ellipsis:
            # The ellipsis stands for the dimensions that no other entry names.
            at += len(t.shape) - sum(x is not None for x in key) + 1
            continue
        if k is None:
            view = view.expand_dim(at)
        at += 1
    return view


def _scalar(k):
    return isinstance(k, T.Tensor) and k.storage.memory and k.size == 1


def _range(k, n, d):
    """(start, count, step) of an entry other than an index object; start may be a register
    value."""
    if isinstance(k, DynSlice):
        start, size = k.start, whole(k.size)
        if size is None:
            raise KernelError("%r: the size must be a whole number" % k)
        if whole(start) is not None:
            start = whole(start)
            if not 0 <= start < n or size < 1:
                raise KernelError("%r of dimension %d, which has %d elements" % (k, d, n))
        return start, size, 1
    if isinstance(k, slice):
        return _slice_range(k, n, d)
    raise KernelError("index %r of dimension %d: it takes whole numbers, slices, ds(), registers "
                      "and index objects" % (k, d))


def _slice_range(k, n, d):
    step = 1 if k.step is None else whole(k.step)
    if step is None or step < 1:
        raise KernelError("%r of dimension %d: the step must be a whole number, 1 or more" % (k, d))
    if isinstance(k.start, RegisterValue) or isinstance(k.stop, RegisterValue):
        # The difference of the two registers must be a number.
        length = (0 if k.stop is None else k.stop) - (0 if k.start is None else k.start)
        if not isinstance(length, RegisterValue) or length.terms:
            raise KernelError("%r of dimension %d: its length is not known while the kernel is "
                              "built; use ds(start, size)" % (k, d))
        if length.const < 1:
            raise KernelError("%r of dimension %d is empty" % (k, d))
        return k.start, -(-length.const // step), step
    bounds = [x if x is None else whole(x) for x in (k.start, k.stop)]
    if (bounds[0] is None and k.start is not None) or (bounds[1] is None and k.stop is not None):
        raise KernelError("%r of dimension %d: bounds must be whole numbers or registers" % (k, d))
    # Python's own rule for open, negative and far bounds.
    start, stop, step = slice(bounds[0], bounds[1], step).indices(n)
    if start >= stop:
        raise KernelError("%s:%s of dimension %d, which has %d elements, is empty"
                          % (k.start, k.stop, d, n))
    return start, -(-(stop - start) // step), step


def _basic(t, key):
    shape, steps, past = [], [], []
    chip = t.storage.memory
    off, part, moves = t.off, t.part, []
    for d, k in enumerate(key):
        n, step = t.shape[d], t.steps[d]
        number = whole(k) if not isinstance(k, (slice, DynSlice)) else None
        # A number, a register or a scalar tile removes its dimension.
        drop = number is not None or isinstance(k, RegisterValue) or _scalar(k)
        if number is not None:
            number += n if number < 0 else 0
            if not 0 <= number < n:
                raise KernelError("index %d of dimension %d, which has %d elements" % (k, d, n))
            start, count, by = number, 1, 1
        elif drop:
            start, count, by = k, 1, 1
        else:
            start, count, by = _range(k, n, d)
        if d == 0 and t.has("gather") and (drop or count != n):
            raise KernelError("dimension 0 takes its rows from an index vector: no slices of it")
        if not isinstance(start, int):
            if d == 0 and chip:
                raise KernelError("%r: the partitions of an operand must be known while the kernel "
                                  "is built" % (k,))
            if isinstance(start, RegisterValue):
                # Its furthest element from the register.
                start.stays(d, n, high=(count - 1) * by)
            moves.append((start, step))
        elif d == 0 and chip:
            part += start * step
        else:
            off += start * step
        if isinstance(start, int) and not drop:
            past += _past(k, start, count, by, n, len(shape))
        # The partitions stay a dimension of one.
        if not drop or (d == 0 and chip):
            shape.append(count)
            steps.append(step * by)
    if len(shape) < 2 and (chip or not shape):
        shape.append(1)
        steps.append(1)
    view = T.Tensor(t.storage, t.dtype, tuple(shape), tuple(steps), part, off, t.dyn)
    for start, stride in moves:
        view = view.moved_by(start, stride)
    if past:
        _keep_past(view, past)
    return view


def _past(k, start, count, by, n, axis):
    """[(axis, elements asked for, (n, index of the axis), whether Python cuts them off)] of a slice
    or a ds() that goes past the end."""
    if isinstance(k, DynSlice):
        asked, cut = count, False
    else:
        # Python cuts a slice at the end, and ds() is an error without a mask.
        stop = None if k.stop is None else whole(k.stop)
        if stop is None or stop <= n or by != 1:
            return []
        asked, cut = stop - start, True
    if start + asked <= n:
        return []
    # The index that the slice stands for, so that masks are compared with it.
    return [(axis, asked, n, Index([1], [asked], start, str(k)), cut)]


def _keep_past(view, past):
    """Lets a view with slices past the end be what it is for calls with a mask, and, if they are
    Python's slices, what Python makes of it for others."""
    shape, bound = list(view.shape), []
    for axis, asked, n, index, _ in past:
        shape[axis] = asked
        coef, size = [0] * len(shape), [1] * len(shape)
        coef[axis], size[axis] = 1, asked
        bound.append((n, Index(coef, size, index.const, index.said)))
    # Without ds(): calls without a mask see the view as Python cuts it.
    if all(cut for *_, cut in past):
        full = view.like(shape, view.steps)
        full.bound = bound
        view.bound = PastEnd(full)
    else:
        view.shape, view.bound = tuple(shape), bound


def _advanced(t, key):
    """What makes t[key] of index objects: each of their axes is one axis of the result. A slice at
    dimension d is axis d if the index objects leave that free, else slices are axes of their own,
    as in NumPy."""
    indices = [k for k in key if isinstance(k, (Index, T.Tensor))]
    # An index tile has a column too.
    naxes = max([k.ndim for k in indices if isinstance(k, Index)] or [2])
    size = [1] * naxes
    for k in indices:
        tile = isinstance(k, T.Tensor)  # its partitions are axis 0
        for a, n in enumerate(k.shape[:1] if tile else k.shape, 0 if tile else naxes - k.ndim):
            # Sizes of one axis agree, or one of them is 1.
            if n != 1 and size[a] not in (1, n):
                raise KernelError("index %s: axis %d has %d and %d values" % (k, a, size[a], n))
            size[a] = max(size[a], n)
    slices = [d for d, k in enumerate(key) if isinstance(k, (slice, DynSlice))]
    aligned = naxes == len(key) and all(size[d] == 1 for d in slices)
    place, size = (({d: d for d in slices}, size) if aligned else _numpy_axes(key, size, slices))
    shift = 0 if aligned or not slices else next(
        # The index objects begin at the first axis that no slice has.
        (a for a in range(len(size)) if a not in place.values()), 0)
    return _Builder(t, size, place, shift, naxes)


def _numpy_axes(key, size, slices):
    """Axes of slices and of index objects by NumPy's rule, with the latter side by side."""
    other = [d for d in range(len(key)) if d not in slices]
    # NumPy puts axes of indices in place if they are neighbours, else first.
    together = other == list(range(other[0], other[-1] + 1))
    before = [d for d in slices if d < other[0]] if together else []
    after = [d for d in slices if d not in before]
    place = {d: a for a, d in enumerate(before)}
    place.update({d: len(before) + len(size) + a for a, d in enumerate(after)})
    return place, [1] * len(before) + size + [1] * len(after)


class _Builder:
    """The view that a key with index objects makes."""

    def __init__(self, t, size, place, shift, naxes):
        self.t, self.size, self.place, self.shift, self.naxes = t, list(size), place, shift, naxes
        self.steps = [0] * len(size)
        self.part, self.off, self.bound, self.gather = t.part, t.off, [], None
        self.part_axis = None

    def build(self, key):
        t = self.t
        for d, k in enumerate(key):
            self.add(d, k)
        steps = self.steps
        if t.storage.memory:
            # Axis 0 has to index the partitions, or to have one element.
            if self.size[0] != 1 and self.part_axis != 0:
                raise KernelError("axis 0 of the result is the partitions: use it to index them")
            steps[0] = 1
        shape = tuple(self.size)
        if len(shape) < 2 and t.storage.memory:
            shape, steps = shape + (1,), steps + [1]
        # Indices that stay inside need no look at the mask.
        bound = self.bound if any(self._outside(b) for b in self.bound) else None
        view = T.Tensor(t.storage, t.dtype, shape, tuple(steps), self.part, self.off, t.dyn, bound)
        if self.gather is None:
            return view
        index, d, n = self.gather
        if t.storage.memory:
            raise NotBuilt("an index tile for a tensor in %s: only one in hbm can be indexed"
                           % T.MEMORY[t.storage.memory])
        # Another index along axis 0 would choose with the vector, which it cannot.
        if self.shift or any(isinstance(k, Index) and k.ndim == self.naxes and k.coef[0] and
                             k.size[0] > 1 for k in key):
            raise NotBuilt("an index tile for dimension %d beside %s: the index tile has axis 0 of "
                           "the result alone; the dimensions before it take numbers"
                           % (d, ", ".join(str(k) for k in key if not isinstance(k, T.Tensor))))
        return view.gathered(index, 0, n)

    @staticmethod
    def _outside(entry):
        low, high = entry[1].bounds()
        return low < 0 or high >= entry[0]

    def add(self, d, k):
        t, n, step = self.t, self.t.shape[d], self.t.steps[d]
        first = d == 0 and t.storage.memory
        if isinstance(k, Index):
            self.index(d, k, n, step, first)
        elif isinstance(k, T.Tensor):
            if k.shape[0] * (k.size // k.shape[0]) != k.size or k.free_size != 1:
                raise KernelError("index tile %r: it must have one index in each partition; "
                                  "nl.where chooses elements by a condition" % k)
            if self.gather:
                raise NotBuilt("index tiles for two dimensions: one can be given")
            self.gather = (k, d, n)
            self.steps[0] = step
            self.size[0] = k.shape[0]
        elif d in self.place:
            start, count, by = _range(k, n, d)
            a = self.place[d]
            self.size[a], self.steps[a] = count, step * by
            self.move(start, step, first)
            if first:
                self.part_axis = a
                if by != 1 and count != 1:
                    raise KernelError("%r: the step of the partitions must be 1" % (k,))
        elif whole(k) is not None:
            number = whole(k) + (n if whole(k) < 0 else 0)
            if not 0 <= number < n:
                raise KernelError("index %d of dimension %d, which has %d elements" % (k, d, n))
            self.move(number, step, first)
        else:
            raise NotBuilt("index %r cannot be combined with index objects" % (k,))

    def move(self, start, step, first):
        if not isinstance(start, int):
            raise NotBuilt("a register cannot be combined with index objects")
        if first:
            self.part += start * step
        else:
            self.off += start * step

    def index(self, d, k, n, step, first):
        at = self.shift + self.naxes - k.ndim
        if len(self.size) != self.naxes or at:  # the index over the axes of the result
            after = len(self.size) - at - k.ndim
            k = Index([0] * at + k.coef + [0] * after, [1] * at + k.size + [1] * after,
                      k.const, k.said)
        self.bound.append((n, k))
        self.move(k.const, step, first)
        for a, c in enumerate(k.coef):
            if not c or k.size[a] == 1:
                continue
            if not first:
                if a == 0 and self.t.storage.memory:
                    raise KernelError("index %s of dimension %d cannot vary along axis 0, which is "
                                      "the partitions of the result" % (k.text, d))
                self.steps[a] += c * step  # several may add up: x[i, i]
                continue
            if a != 0 or c != 1:
                raise KernelError("index %s of the partitions: its step must be 1, along axis 0"
                                  % k.text)
            self.part_axis = 0


