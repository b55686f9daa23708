"""Shapes of elementwise calls: NumPy's rule, or by partitions first.

    [128, 2, 14] + [128, 1]      one number for each partition, though NumPy would not take it
    [128, 2, 14] + [128, 28]     as many elements in each partition, in their order
    [128, 1, 14] + [128, 1]      refused: NumPy would make [128, 128, 14] of it, the machine goes by
                                 partitions. Not in nisa.tensor_tensor, which is one instruction
"""
from soma.errors import KernelError


def _numpys(shapes):
    """The shape that NumPy's rule gives, or None."""
    n = max(map(len, shapes))
    out = []
    for sizes in zip(*[(1,) * (n - len(s)) + tuple(s) for s in shapes]):
        big = max(sizes)
        if any(s not in (1, big) for s in sizes):
            return None
        out.append(big)
    return tuple(out)


def broadcast_shape(*shapes):
    """The shape that NumPy's rule gives."""
    if len(shapes) == 2:
        a, b = shapes
        if a == b:
            return tuple(a)
        if len(a) == 2 == len(b) and a[0] == b[0]:
            if b[1] == 1:
                return tuple(a)
            if a[1] == 1:
                return tuple(b)
    out = _numpys(shapes)
    if out is None:
        raise KernelError("shapes %s do not broadcast" % " and ".join(str(list(s)) for s in shapes))
    return out


def _deeper(shape, n):
    """A shape with n dimensions: new ones of size 1 come after the partitions."""
    return tuple(shape[:1]) + (1,) * (n - len(shape)) + tuple(shape[1:])


def paired(x, y, in_order=False):
    """(the shape of the result, views of x and y) of an elementwise call of two tiles. in_order: of
    nisa.tensor_tensor, for which as many elements in each partition are enough, and which leaves
    each partition where it is."""
    a, b = x.shape, y.shape
    if a == b or (len(a) == 2 == len(b) and (a[0] == b[0] or 1 in (a[0], b[0])) and
                  1 in (a[1], b[1])):
        return broadcast_shape(a, b), x, y
    same = a[0] == b[0] and x.free_size == y.free_size
    numpys = _numpys((a, b))
    if len(a) == len(b):
        if numpys and not (same and in_order):
            return numpys, x, y
        if same and not numpys:
            return a, x, y.reshape(a)
        _refuse(a, b, numpys)
    n = max(len(a), len(b))
    deep = _deeper(a, n), _deeper(b, n)
    short = a if len(a) < n else b
    by_partitions = _numpys(deep) if a[0] == b[0] or short[0] == 1 else None
    if same and (in_order or not numpys and not by_partitions):
        return a, x, y.reshape(a)
    if by_partitions and not (same or numpys and short[0] != 1 and not in_order):
        return by_partitions, x.broadcast_steps(deep[0]), y.broadcast_steps(deep[1])
    if numpys and not by_partitions:
        return numpys, x, y
    _refuse(a, b, numpys or by_partitions)


def _refuse(a, b, ambiguous):
    text = "shapes %s and %s do not broadcast" % (list(a), list(b))
    if ambiguous:
        text = "shapes %s and %s fit in more than one way: as NumPy's arrays, by partitions, or " \
            "in the order of their elements; reshape one to the dimensions of the other" \
            % (list(a), list(b))
    raise KernelError(text)


def together(*tiles):
    """(the shape of the result, views) of an elementwise call of several tiles."""
    deepest = max(tiles, key=lambda t: (len(t.shape), t.free_size))
    views = [t if t is deepest else paired(deepest, t)[2] for t in tiles]
    return broadcast_shape(*[t.shape for t in views]), views
