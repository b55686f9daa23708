"""How the elements of operands lie in HBM, and the tiles in which a program walks over them."""
from . import dtypes

PARTITIONS, COLUMNS = 128, 2048  # most of a tile
NARROW = 128  # columns of a tile that is cut from elements in one row, at least
TILES = 64  # most of one program; more are cut into parts, which are runs of the same program


class _Dense(dict):
    """Steps of a dense row-major order, by the shape."""

    def __missing__(self, shape):
        if len(self) > 10000:
            self.clear()
        steps, n = [], 1
        for s in reversed(shape):
            steps.append(n)
            n *= s
        steps = self[shape] = tuple(reversed(steps))
        return steps


_dense = _Dense()


def dense(shape):
    """Steps of a dense row-major order."""
    return _dense[tuple(shape)]


def product(sizes):
    n = 1
    for s in sizes:
        n *= s
    return n


class Lies:
    """Elements of a device's HBM: `array` has the bytes, `offset` is the first element's place in
    it; a step for each dimension. All in elements of `dtype`."""

    __slots__ = ("array", "offset", "shape", "steps", "dtype")

    def __init__(self, array, shape=None, steps=None, offset=0, dtype=None):
        self.array, self.offset = array, offset
        self.shape = tuple(array.shape if shape is None else shape)
        self.steps = dense(self.shape) if steps is None else tuple(steps)
        self.dtype = dtypes.find(array.dtype if dtype is None else dtype)

    def at(self, offset, shape, steps):
        return Lies(self.array, shape, steps, self.offset + offset, self.dtype)

    def spread(self, shape):
        """The same broadcast to a shape: steps of 0 where it repeats."""
        missing = len(shape) - len(self.shape)
        steps = (0,) * missing + tuple(0 if own == 1 else s
                                       for own, s in zip(self.shape, self.steps))
        return self.at(0, shape, steps)

    def flat(self):
        """A view from the first element to the last, in one dimension."""
        n = 1 + sum((size - 1) * step for size, step in zip(self.shape, self.steps))
        return self.array._view(self.offset * self.dtype.size, (n,), self.dtype)

    def is_dense(self):
        return self.steps == dense(self.shape) or all(
            step == want for size, step, want in zip(self.shape, self.steps, dense(self.shape))
            if size > 1)


def broadcast(name, shapes):
    """The common shape."""
    most = max(map(len, shapes))
    padded = [(1,) * (most - len(s)) + tuple(s) for s in shapes]
    shape = []
    for sizes in zip(*padded):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise ValueError("%s: shapes %s do not fit together"
                             % (name, " and ".join(str(list(s)) for s in shapes)))
        shape.append(wide.pop() if wide else 1)
    return tuple(shape)


def joined(operands):
    """[(size, steps of the operands)], outermost first: without dimensions of one element, and
    joined where for all operands one goes on where the next ends."""
    dims = []
    for d in reversed(range(len(operands[0].shape))):
        n, steps = operands[0].shape[d], tuple(x.steps[d] for x in operands)
        if n == 1:
            continue
        if dims and all(s == inner * dims[0][0] for s, inner in zip(steps, dims[0][1])):
            dims[0] = dims[0][0] * n, dims[0][1]
        else:
            dims.insert(0, (n, steps))
    return dims or [(1, (1,) * len(operands))]


def boxes(dims):
    """Tiles [((rows, steps), (columns, steps), offsets)]: each element is in one of them."""
    zero = (0,) * len(dims[0][1])
    if len(dims) == 1:
        n, steps = dims[0]
        width = min(max(n // PARTITIONS, NARROW), COLUMNS, n)
        rest = n % width
        outer = tuple(width * s for s in steps)
        found = _cut((n // width, outer), (width, steps), zero)
        if rest:
            start = tuple(n // width * s for s in outer)
            found += [((1, zero), (rest, steps), start)]
        return found
    rows = max(range(len(dims) - 1), key=lambda d: dims[d][0])
    starts = [zero]
    for d, (n, steps) in enumerate(dims[:-1]):
        if d != rows:
            starts = [_moved(start, steps, i) for start in starts for i in range(n)]
    return [box for start in starts for box in _cut(dims[rows], dims[-1], start)]


def _moved(start, steps, i):
    return tuple(a + i * s for a, s in zip(start, steps))


def _cut(rows, columns, start):
    """Rows times columns in tiles of the largest size."""
    found = []
    for r in range(0, rows[0], PARTITIONS):
        for c in range(0, columns[0], COLUMNS):
            at = _moved(_moved(start, rows[1], r), columns[1], c)
            found.append(((min(PARTITIONS, rows[0] - r), rows[1]),
                          (min(COLUMNS, columns[0] - c), columns[1]), at))
    return found


def parts(dims):
    """[(dims of a part, [offsets of each such part])]; a part has at most TILES tiles."""
    if _fits(dims):
        return [(dims, [(0,) * len(dims[0][1])])]
    n, steps = dims[0]
    zero = (0,) * len(steps)
    if not _fits([(1, steps)] + dims[1:]):  # each element of the outermost dimension on its own
        return [(inner, [_moved(at, steps, i) for i in range(n) for at in ats])
                for inner, ats in parts(dims[1:])]
    low, high = 1, n  # low fits, high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits([(middle, steps)] + dims[1:]) else (low, middle)
    found = [([(low, steps)] + dims[1:],
              [_moved(zero, steps, i) for i in range(0, n - n % low, low)])]
    if n % low:
        found.append(([(n % low, steps)] + dims[1:], [_moved(zero, steps, n - n % low)]))
    return found


def _fits(dims):
    return _tiles(dims) <= TILES


def _tiles(dims):
    """How many boxes(dims) gives, at least."""
    if len(dims) == 1:
        return -(-dims[0][0] // (PARTITIONS * COLUMNS))
    rows = max(n for n, _ in dims[:-1])
    return product([n for n, _ in dims[:-1]]) // rows * -(-rows // PARTITIONS) * \
        -(-dims[-1][0] // COLUMNS)


def part_of(x, j, dims, at):
    """The operand number j of a part."""
    return x.at(at[j], tuple(n for n, _ in dims), tuple(steps[j] for _, steps in dims))


def same_memory(x, y):
    """Whether two operands may share bytes."""
    def span(a):
        first = a.array._at + a.offset * a.dtype.size
        return first, first + a.dtype.size * (1 + sum(
            (n - 1) * s for n, s in zip(a.shape, a.steps)))
    (a, b), (c, d) = span(x), span(y)
    return x.array._root is y.array._root and a < d and c < b
