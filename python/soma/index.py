"""Index and mask objects: affine expressions over the axes of a tile.

    i_p, i_f = mgrid[0:128, 0:512]        # or arange(128)[:, None], arange(512)[None, :]
    x[i_p, 2 * i_f + 1]                   # an access pattern
    mask = (i_p < 100) & (i_f <= i_p)     # bounds of one axis, and of two

An Index has one coefficient for each axis of the result, the sizes of these axes, and a constant;
sums, products and comparisons of them are those of the module in C.
What is not affine is refused with the expression.
"""
import dis
import sys

from . import record
from .checked import whole
from .errors import KernelError
from .native import _soma


def _string(said, depth=0):
    """What an expression is called in messages; `said` is a string, or (format, parts ...), which
    is put together only here: loops make many expressions."""
    if said.__class__ is not tuple:
        return str(said)
    return said[0] % tuple(_string(x, depth + 1) for x in said[1:]) if depth < 20 else "..."


MOST = 1000  # entries of a memory of what was made


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
        axis = axis + self.ndim + 1 if axis < 0 else axis
        return Index(self.coef[:axis] + [0] + self.coef[axis:],
                     self.size[:axis] + [1] + self.size[axis:], self.const, self.said)

    def broadcast_to(self, shape):
        """The index over axes of these sizes."""
        size = list(shape)
        return self + Index([0] * len(size), size, 0, "0")

    def refuse(self, op, other):
        """The error of an operator that is not affine."""
        raise KernelError("(%s) %s %s is not affine: an access pattern takes sums of indices times "
                          "whole numbers" % (self.text, op, other))

    def __floordiv__(self, other):
        k = whole(other)
        if k and all(c % k == 0 or n == 1 for c, n in zip(self.coef, self.size)) and \
                0 <= self.const % k < abs(k):
            return Index([c // k for c in self.coef], self.size, self.const // k,
                         ("(%s) // %s", self.said, k))
        low, high = self.bounds()
        if k and low // k == high // k:
            return Index([0] * self.ndim, self.size, low // k,
                         ("(%s) // %s", self.said, k))
        return self.refuse("//", other)

    def __mod__(self, other):
        k = whole(other)
        low, high = self.bounds()
        if k and low // k == high // k:
            return self + -(low // k) * k
        if k and all(c % k == 0 or n == 1 for c, n in zip(self.coef, self.size)):
            return Index([0] * self.ndim, self.size, self.const % k,
                         ("%s %% %s", self.said, k))
        return self.refuse("%", other)

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


class Mask(_soma.Mask):
    """A conjunction of `term >= 0`, where each term is an Index. `size` are the axes that it is
    over."""

    __slots__ = ()

    text = property(lambda self: _string(self.said))

    def __repr__(self):
        return self.text

    def joined(self):
        """This mask and the one on the left of an `and`, or of a comparison that goes on."""
        left, code, line = _soma.waiting.pop()
        frame = sys._getframe(1)
        if frame.f_code is not code:
            raise KernelError("the mask %s has no truth value: join masks with `&`" % left.text,
                              record.shown(code.co_filename), line)
        return Mask(left.terms + self.terms, ("(%s) & (%s)", left.said, self.said), self.equal)

    def never(self):
        """Whether it holds nowhere, as far as one bound shows."""
        return any(t.bounds()[1] < 0 for t in self.terms)

    def __and__(self, other):
        if other is True or other is None:
            return self
        if other is False:
            return other
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask(self.terms + other.terms, ("(%s) & (%s)", self.said, other.said))

    __rand__ = __and__

    def __or__(self, other):
        if other is True or other is False:
            return True if other else self
        if not isinstance(other, Mask):
            return NotImplemented
        if self.never() or _implies(self, other):
            return other
        if other.never() or _implies(other, self):
            return self
        raise KernelError("mask (%s) | (%s): a mask takes only bounds joined by `&`"
                          % (self.text, other.text))

    __ror__ = __or__

    def __invert__(self):
        if len(self.terms) != 1:
            raise KernelError("~(%s): only a single bound can be negated" % self.text)
        return Mask([self.terms[0] * -1 + -1], ("~(%s)", self.said))

    def __bool__(self):
        """`a < i < b` and `m and n` ask a mask whether it is true. In both, the second part is made
        right after this, and holds together with this one; anything else is refused."""
        frame = sys._getframe(1)
        if not _is_and(frame):
            raise KernelError("the mask %s differs over its axes: it cannot decide an `if`; join "
                              "masks with `&`" % self.text)
        _soma.waiting.append((self, frame.f_code, frame.f_lineno))
        return True


_soma.use(Index=Index, Mask=Mask)


def _is_and(frame):
    """Whether the current instruction asks for the truth value of the left side of an `and`: then
    the jump that leaves it keeps or copies the value."""
    code = frame.f_code
    last = None
    for i in dis.get_instructions(code):
        if i.offset >= frame.f_lasti and i.opname not in ("TO_BOOL", "CACHE"):
            if i.opname == "JUMP_IF_FALSE_OR_POP":
                return True
            return i.opname == "POP_JUMP_IF_FALSE" and last in ("COPY", "TO_BOOL")
        if i.opname != "CACHE":
            last = i.opname if i.opname != "TO_BOOL" or last != "COPY" else "COPY"
    return False


def _implies(a, b):
    """Whether a holds only where b does, as far as bounds of one axis show."""
    def bounds(mask):
        found = {}
        for t in mask.terms:
            coef = t.coef
            axes = [i - t.ndim for i, c in enumerate(coef) if c]
            if len(axes) != 1 or abs(coef[axes[0]]) != 1:
                return None
            c = coef[axes[0]]
            key = (axes[0], c)
            found[key] = min(found.get(key, 1 << 62), t.const)
        return found
    x, y = bounds(a), bounds(b)
    return x is not None and y is not None and all(k in x and x[k] <= v for k, v in y.items())


arange = _soma.arange


class _Grid(tuple):
    """The indices of a grid; also by name: p, x (or the second), y, z, w."""

    p = property(lambda self: self[0])
    x = property(lambda self: self[1])
    y = property(lambda self: self[2])
    z = property(lambda self: self[3])
    w = property(lambda self: self[4])


class _MGrid:
    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        for k in key:
            if not isinstance(k, slice):
                raise _no_grid(k)
        parts = tuple([(k.start or 0, k.stop, k.step or 1) for k in key])
        try:
            found = _grids.get(parts)
        except TypeError:  # numbers that have no hash
            return _grid(parts)
        if found is None:
            if len(_grids) >= MOST:
                _grids.clear()
            found = _grids[parts] = _grid(parts)
        return found


_grids = {}  # what mgrid has given: loops ask for the same again


def _no_grid(what):
    return KernelError("mgrid takes slices of whole numbers, such as mgrid[0:128, 0:512], not %s"
                       % (what,))


def _grid(parts):
    given, parts = parts, [[whole(x) for x in part] for part in parts]
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
