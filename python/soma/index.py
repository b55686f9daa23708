"""Index objects: affine expressions over the axes of a tile.

    i_p, i_f = mgrid[0:128, 0:512]        # or arange(128)[:, None], arange(512)[None, :]
    x[i_p, 2 * i_f + 1]                   # an access pattern
    mask = (i_p < 100) & (i_f <= i_p)     # bounds of one axis, and of two (masks.py)

An Index has one coefficient for each axis of the result, the sizes of these axes, and a constant;
sums, products and comparisons of them are those of the module in C.
What is not affine is refused with the expression.
"""
import functools
import operator

from .checked import between, whole
from .errors import KernelError
from .native import _soma


def _string(said, depth=0):
    """What an expression is called in messages; `said` is a string, or (format, parts ...), which
    is put together only here: loops make many expressions."""
    if said.__class__ is not tuple:
        return str(said)
    return said[0] % tuple(_string(x, depth + 1) for x in said[1:]) if depth < 20 else "..."


class Index(_soma.Index):
    """const + the sum over axes of coef[a] * (0 .. size[a] - 1); axes count from 0 to ndim - 1."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's scalars leave operators to an index
    string = staticmethod(_string)

    text = property(lambda self: _string(self.said))

    def __repr__(self):
        return self.text

    @staticmethod
    def no_arange(said):
        """The error of an arange() that is none; said as an index would have it."""
        text = "arange(%s)" % ", ".join(map(str, said[1:]))
        numbers = [whole(x) for x in said[1:]]
        if None in numbers or not 1 <= len(numbers) <= 3 or 0 in numbers[2:]:
            raise KernelError("%s: it takes one to three whole numbers: start, stop and a step"
                              % text)
        raise KernelError("%s is empty" % text)

    def expand_dims(self, axis):
        """The index with one more axis of size 1, as in nl.expand_dims."""
        axis = between(axis, -self.ndim - 1, self.ndim, "the axis of expand_dims")
        return self[(slice(None),) * (axis % (self.ndim + 1)) + (None,)]

    def broadcast_to(self, shape):
        """The index over axes of these sizes."""
        size = list(shape)
        return self + Index([0] * len(size), size, 0, "0")

    def refuse(self, op, other):
        """The error of an operator that is not affine."""
        raise KernelError("(%s) %s %s is not affine: an access pattern takes sums of indices times "
                          "whole numbers" % (self.text, op, other))

    def __truediv__(self, other):
        return self.refuse("/", other)

    def __pow__(self, other):
        return self.refuse("**", other)

    __hash__ = None

    def __bool__(self):
        raise KernelError("the value of %s differs over its axes: it cannot decide an "
                          "`if`" % self.text)

    def __int__(self):
        raise KernelError("%s is an index over an axis, not a number" % self.text)

    __index__ = __int__


_soma.use(Index=Index)
arange = _soma.arange


class _Grid(tuple):
    """The indices of a grid; also by name: p, x (or the second), y, z, w."""


for _axis, _name in enumerate("pxyzw"):
    setattr(_Grid, _name, property(operator.itemgetter(_axis)))


class _MGrid:
    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        for k in key:
            if not isinstance(k, slice):
                raise _no_grid(k)
        parts = tuple([(k.start or 0, k.stop, k.step or 1) for k in key])
        try:
            return _grid(parts)
        except TypeError:  # numbers that have no hash
            return _grid.__wrapped__(parts)


def _no_grid(what):
    return KernelError("mgrid takes slices of whole numbers, such as mgrid[0:128, 0:512], not %s"
                       % (what,))


@functools.lru_cache(maxsize=1000)  # loops ask for the same again
def _grid(given):
    parts = [[whole(x) for x in part] for part in given]
    for part, numbers in zip(given, parts):
        if None in numbers:
            raise _no_grid("%s:%s:%s" % part)
    size = [max(0, -((start - stop) // step)) for start, stop, step in parts]
    if 0 in size:
        raise KernelError("mgrid: an axis is empty (sizes %s)" % (tuple(size),))
    made = []
    for a, (start, _, step) in enumerate(parts):
        coef = [0] * len(parts)
        coef[a] = step
        text = "i%d" % a if not start else "i%d + %d" % (a, start)
        made.append(Index(coef, size, start, text))
    return _Grid(made)


mgrid = _MGrid()


DynSlice = _soma.DynSlice
ds = dslice = _soma.ds
