"""Indexing beyond whole-number slices: ellipsis, negative and open bounds, registers, index
objects, and index tiles in SBUF."""
from . import tensor as T
from .checked import whole
from .errors import KernelError, NotBuilt
from .index import DynSlice, Index
from .masks import Mask
from .register import IndexAt, RegisterValue
from .under import Masked, PastEnd, as_asked


def _expand(t, key):
    """key with one entry for each dimension, and None for each new axis."""
    dots = [i for i, k in enumerate(key) if k is Ellipsis]
    missing = len(t.shape) + len(dots) - sum(k is not None for k in key)
    if len(dots) > 1:
        raise KernelError("an index can have at most one ...")
    if missing < 0:
        raise KernelError("%d indices for a tensor with %d dimensions"
                          % (len(t.shape) - missing, len(t.shape)))
    at = dots[0] if dots else len(key)
    return key[:at] + (slice(None),) * missing + key[at + 1:]


def general(t, key):
    """t[key] for any key; the module in C has those of numbers, slices and index objects."""
    if key.__class__ is Mask:
        return Masked(as_asked(t), key)
    if t.bound is not None:
        # With its indices in range it is a plain view.
        t.check_bounds()
        return t[key]
    key = tuple(key) if isinstance(key, tuple) else (key,)
    if len(key) == 2 and key[1] is None and key[0] == slice(None) and t.shape[1:] == (1,):
        return t  # a reduced tile keeps a last dimension of one element: nl.sum(x, axis=1)[:, None]
    given, key = key, _expand(t, key)
    new = [i for i, k in enumerate(key) if k is None]
    if new:
        if any(isinstance(k, (Index, T.Tensor, int)) for k in key):
            raise KernelError("indexing with None and %s: use expand_dim" % (given,))
        view = t[tuple(k for k in key if k is not None)]
        for i in new:
            view = view.expand_dim(i)
        return view
    if any(k.__class__ is range for k in key):
        key = _of_ranges(t, key)
    # A tile of one element is a scalar, and no index tile, unless it is beside index objects.
    advanced = any(isinstance(k, (Index, IndexAt, T.Tensor)) and not _scalar(k) for k in key)
    moves, plain, asked = [], [], []
    for d, k in enumerate(key):
        fixed, as_said, start, reach = _entry(k, d, t.shape[d], advanced)
        if start is not None:
            if d == 0 and t.storage.memory:
                raise KernelError("%r: the partitions of an operand must be known while the kernel "
                                  "is built" % (k,))
            if isinstance(start, RegisterValue):
                start.stays(d, t.shape[d], *reach)
            moves.append((start, t.steps[d]))
        plain.append(fixed)
        asked.append(as_said)
    if advanced:
        return _moved(_advanced(t, asked, key), moves)
    view = _moved(t[tuple(plain)], moves)
    past = [d for d in range(len(key)) if isinstance(plain[d], slice) and asked[d] is not plain[d]]
    if past:
        if t.storage.memory and asked[0].__class__ is int:  # the partitions stay a dimension
            first = asked[0] % t.shape[0]
            asked[0] = slice(first, first + 1, 1)
        # A mask limits it, as it does index objects.
        full = _advanced(t, asked, key)
        bound, full = full.bound, _moved(full.like(full.shape, full.steps), moves)
        full.bound = bound
        # Without ds(): calls without a mask see the view as Python cuts it.
        if any(isinstance(key[d], DynSlice) for d in past):
            return full
        view.bound = PastEnd(full)
    return view


def _moved(view, moves):
    if view.bound is not None and moves:
        raise NotBuilt("an index past the end, limited by a mask, with a register")
    for start, stride in moves:
        view = view.moved_by(start, stride)
    return view


def _entry(k, d, n, advanced):
    """An entry of a key as what lies in the dimension, and as it is asked for, if a slice goes past
    the end; the register or scalar tile that moves it, or None; and how far it reaches from
    there."""
    if isinstance(k, RegisterValue) or (_scalar(k) and not advanced):
        return 0, 0, k, (0, 0)
    if isinstance(k, IndexAt):
        return k.index, k.index, k.start, k.index.bounds()
    if isinstance(k, (Index, T.Tensor)):
        return k, k, None, None
    if isinstance(k, (slice, DynSlice)):
        start, count, by = _range(k, n, d)
        # Up to the last element that is read, no further.
        end = (count - 1) * by
        if not isinstance(start, int):
            if end >= n:
                raise KernelError("%r of dimension %d, which has %d elements" % (k, d, n))
            whole_ = slice(0, end + 1, by)
            return whole_, whole_, start, (0, end)
        cut = slice(start, min(start + end + 1, n), by)
        # Python cuts a slice at the end, and ds() is an error without a mask.
        stop = start + count if isinstance(k, DynSlice) else whole(k.stop) if not advanced and \
            by == 1 and k.stop is not None else None
        return cut, cut if stop is None or stop <= n else slice(start, stop, 1), None, None
    number = whole(k)
    if number is None:
        raise KernelError("index %r of dimension %d: it takes whole numbers, slices, ds(), "
                          "registers and index objects" % (k, d))
    return number, number, None, None


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
    return _slice_range(k, n, d)


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


def _advanced(t, key, said):
    """t[key] of index objects and slices: each axis of the former is one of the result. A slice at
    dimension d is axis d if the index objects leave that free, else slices are axes of their own,
    as in NumPy. said: the key as it was written."""
    indices = [k for k in key if isinstance(k, (Index, T.Tensor))]
    # An index tile has a column too.
    naxes = max([k.ndim for k in indices if isinstance(k, Index)] or [2 if indices else 0])
    size = [1] * naxes
    for k in indices:
        tile = isinstance(k, T.Tensor)  # its partitions are axis 0
        for a, n in enumerate(k.shape[:1] if tile else k.shape, 0 if tile else naxes - k.ndim):
            size[a] = max(size[a], n)
    slices = [d for d, k in enumerate(key) if isinstance(k, slice)]
    aligned = naxes == len(key) and all(size[d] == 1 for d in slices)
    place, size = ({d: d for d in slices}, size) if aligned else _numpy_axes(key, size, slices)
    shift = 0 if aligned or not slices else next(
        # The index objects begin at the first axis that no slice has.
        (a for a in range(len(size)) if a not in place.values()), 0)
    tiles = [d for d, k in enumerate(key) if isinstance(k, T.Tensor)]
    made = []
    for d, k in enumerate(key):
        if isinstance(k, slice):
            count = (k.stop - k.start - 1) // k.step + 1
            k = _over(len(size), place[d], k.step, count, k.start, str(said[d]))
        elif isinstance(k, Index):
            at = shift + naxes - k.ndim
            after = len(size) - at - k.ndim
            k = Index([0] * at + k.coef + [0] * after, [1] * at + k.size + [1] * after, k.const,
                      k.said)
        elif isinstance(k, T.Tensor):
            k = _over(len(size), 0, 1, k.shape[0], 0, str(k))
        made.append(k)
    view = _gathered(t, key, made, tiles, shift) if tiles else t[tuple(made)]
    steps = list(view.steps)
    for d in slices:  # of one element, too: a register may move it
        steps[place[d]] = t.steps[d] * key[d].step
    view.steps = steps
    return view


def _over(naxes, axis, step, count, start, said):
    """The index of one axis."""
    coef, size = [0] * naxes, [1] * naxes
    coef[axis], size[axis] = step, count
    return Index(coef, size, start, said)


def _gathered(t, key, made, tiles, shift):
    """The view whose dimension d takes its rows from the index tile key[d]; made: the same with an
    index object in its place."""
    d = tiles[0]
    k, n = key[d], t.shape[d]
    for tile in tiles:
        if key[tile].free_size != 1:
            raise KernelError("index tile %r: it must have one index in each partition; "
                              "nl.where chooses elements by a condition" % key[tile])
    if len(tiles) > 1:
        raise NotBuilt("index tiles for two dimensions: one can be given")
    if t.storage.memory:
        raise NotBuilt("an index tile for a tensor in %s: only one in hbm can be indexed"
                       % T.MEMORY[t.storage.memory])
    # Another index along axis 0 would choose with the vector, which it cannot.
    if shift or any(isinstance(x, Index) and i != d and x.coef[0] and x.size[0] > 1
                    for i, x in enumerate(made)):
        raise NotBuilt("an index tile for dimension %d beside %s: the index tile has axis 0 of "
                       "the result alone; the dimensions before it take numbers"
                       % (d, ", ".join(str(x) for x in key if not isinstance(x, T.Tensor))))
    # As many rows as the vector has, wherever they are.
    shape = t.shape[:d] + (max(n, k.shape[0]),) + t.shape[d + 1:]
    view = t.like(shape, t.steps)[tuple(made)]
    view.steps = (t.steps[d],) + view.steps[1:]
    return view.gathered(k, 0, n)


def _numpy_axes(key, size, slices):
    """Axes of slices and of index objects by NumPy's rule, with the latter side by side."""
    other = [d for d in range(len(key)) if d not in slices]
    # NumPy puts axes of indices in place if they are neighbours, else first.
    together = other and other == list(range(other[0], other[-1] + 1))
    before = [d for d in slices if d < other[0]] if together else []
    after = [d for d in slices if d not in before]
    place = {d: a for a, d in enumerate(before)}
    place.update({d: len(before) + len(size) + a for a, d in enumerate(after)})
    return place, [1] * len(before) + size + [1] * len(after)
