"""Index and mask objects: affine expressions over the axes of a tile.

    i_p, i_f = mgrid[0:128, 0:512]        # or arange(128)[:, None], arange(512)[None, :]
    x[i_p, 2 * i_f + 1]                   # an access pattern
    mask = (i_p < 100) & (i_f <= i_p)     # bounds of one axis, and of two

An Index has one coefficient for each axis of the result, the sizes of these axes, and a constant.
Loops make indices anew in each round: all that differ by a whole number share their Axes, so what
follows from these is found once. What is not affine is refused with the expression.
"""
import dis
import sys

from . import record
from .checked import whole
from .errors import KernelError


def _string(said, depth=0):
    """What an expression is called in messages; `said` is a string, or (format, parts ...), which
    is put together only here: loops make many expressions."""
    if said.__class__ is not tuple:
        return str(said)
    return said[0] % tuple(_string(x, depth + 1) for x in said[1:]) if depth < 20 else "..."


_ALL, _COLUMN, _ROW = slice(None), (True, None), (None, True)
MOST = 1000  # entries of a memory of what was made


class Axes:
    """The sum over axes of coef[a] * (0 .. size[a] - 1): its least and greatest value, and
    `varies`, the axes along which it is not the same everywhere. `views`: of the one kept index
    that has these axes."""

    __slots__ = ("coef", "size", "low", "high", "varies", "multiples", "sums", "views")

    def __init__(self, coef, size):
        self.coef, self.size = coef, size
        low = high = 0
        varies = []
        for a, c in enumerate(coef):
            if c and size[a] > 1:
                varies.append(a)
                if c > 0:
                    high += c * (size[a] - 1)
                else:
                    low += c * (size[a] - 1)
        self.low, self.high, self.varies = low, high, varies
        self.multiples, self.sums, self.views = {}, {}, {}

    def times(self, k):
        """All coefficients times k."""
        found = self.multiples.get(k)
        if found is None:
            if len(self.multiples) >= MOST:
                self.multiples.clear()
            found = self.multiples[k] = Axes([c * k for c in self.coef], self.size)
        return found

    def plus(self, other, sign, said):
        """The sum of both, or their difference: with sign -1."""
        found = self.sums.get((id(other), sign))
        if found is None:
            if len(self.sums) >= MOST:
                self.sums.clear()
            found = self.sums[id(other), sign] = self._plus(other, sign, said), other
        return found[0]

    def _plus(self, other, sign, said):
        n = max(len(self.size), len(other.size))
        (ca, sa), (cb, sb) = (([0] * (n - len(x.size)) + x.coef, [1] * (n - len(x.size)) + x.size)
                              for x in (self, other))
        size = []
        for x, y in zip(sa, sb):
            if x != y and x != 1 and y != 1:
                raise KernelError("%s: one axis has %d and %d values" % (_string(said), x, y))
            size.append(max(x, y))
        return Axes([x + sign * y for x, y in zip(ca, cb)], size)

    def none(self):
        """Axes of the same sizes, along which nothing varies."""
        return Axes([0] * len(self.size), self.size)


class Index:
    """const + the sum over axes of coef[a] * (0 .. size[a] - 1); axes count from 0 to ndim - 1.
    `kept`: whether it came from arange or mgrid, not from arithmetic, so that the kernel uses it
    more than once."""

    __slots__ = ("axes", "const", "said", "kept")
    __array_ufunc__ = None  # NumPy's scalars leave operators to an index

    def __init__(self, axes, const, said, kept=False):
        self.axes, self.const, self.said, self.kept = axes, const, said, kept

    coef = property(lambda self: self.axes.coef)
    size = property(lambda self: self.axes.size)
    text = property(lambda self: _string(self.said))
    ndim = property(lambda self: len(self.axes.size))
    shape = property(lambda self: tuple(self.axes.size))

    def __repr__(self):
        return self.text

    def bounds(self):
        """Least and greatest value."""
        return self.const + self.axes.low, self.const + self.axes.high

    def __getitem__(self, key):
        key = key if key.__class__ is tuple else (key,)
        if not self.kept:
            return self._view(key)
        # None for a new axis, True for `:`. Loops make arange(n)[:, None] in each round.
        a, b = key if len(key) == 2 else (0, 0)
        if b is None and a.__class__ is slice and a == _ALL:
            shape = _COLUMN
        elif a is None and b.__class__ is slice and b == _ALL:
            shape = _ROW
        else:
            shape = tuple([k if k is None else k.__class__ is slice and k == _ALL for k in key])
        found = self.axes.views.get(shape)
        if found is None:
            found = self._view(key)
            if False not in shape:
                self.axes.views[shape] = found
        return found

    def _view(self, key):
        coef, size, axis = [], [], 0
        if Ellipsis in key:
            at = key.index(Ellipsis)
            missing = self.ndim - sum(k is not None for k in key) + 1
            key = key[:at] + (_ALL,) * missing + key[at + 1:]
        for k in key:
            if k is None:
                coef.append(0)
                size.append(1)
            elif isinstance(k, slice) and k == _ALL and axis < self.ndim:
                coef.append(self.coef[axis])
                size.append(self.size[axis])
                axis += 1
            else:
                raise KernelError("an index takes `:` and None, not %r" % (k,))
        coef += self.coef[axis:]
        size += self.size[axis:]
        return Index(Axes(coef, size), self.const, self.said, self.kept)

    def expand_dims(self, axis):
        """The index with one more axis of size 1, as in nl.expand_dims."""
        axis = axis + self.ndim + 1 if axis < 0 else axis
        return Index(Axes(self.coef[:axis] + [0] + self.coef[axis:],
                          self.size[:axis] + [1] + self.size[axis:]),
                     self.const, self.said, self.kept)

    def broadcast_to(self, shape):
        """The index over axes of these sizes."""
        size = list(shape)
        return self + Index(Axes([0] * len(size), size), 0, "0")

    def _combine(self, other, sign, said):
        return Index(self.axes.plus(other.axes, sign, said), self.const + sign * other.const, said)

    def __add__(self, other):
        if other.__class__ is int:
            k = other
        elif isinstance(other, Index):
            return self._combine(other, 1, ("%s + %s", self.said, other.said))
        else:
            k = whole(other)
            if k is None:
                return NotImplemented
        return Index(self.axes, self.const + k, ("%s + %s", self.said, k))

    __radd__ = __add__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        if isinstance(other, Index):
            return self._combine(other, -1, ("%s - (%s)", self.said, other.said))
        k = whole(other)
        return NotImplemented if k is None else self + -k

    def __rsub__(self, other):
        return self * -1 + other

    def __mul__(self, other):
        k = whole(other)
        if k is None:
            if isinstance(other, Index):
                return _refuse(self, "*", other)
            return NotImplemented
        return Index(self.axes.times(k), self.const * k, ("%s * (%s)", k, self.said))

    __rmul__ = __mul__

    def __floordiv__(self, other):
        k = whole(other)
        if k and all(c % k == 0 or n == 1 for c, n in zip(self.coef, self.size)) and \
                0 <= self.const % k < abs(k):
            return Index(Axes([c // k for c in self.coef], self.size), self.const // k,
                         ("(%s) // %s", self.said, k))
        low, high = self.bounds()
        if k and low // k == high // k:
            return Index(self.axes.none(), low // k, ("(%s) // %s", self.said, k))
        return _refuse(self, "//", other)

    def __mod__(self, other):
        k = whole(other)
        low, high = self.bounds()
        if k and low // k == high // k:
            return self + -(low // k) * k
        if k and all(c % k == 0 or n == 1 for c, n in zip(self.coef, self.size)):
            return Index(self.axes.none(), self.const % k, ("%s %% %s", self.said, k))
        return _refuse(self, "%", other)

    def __truediv__(self, other):
        return _refuse(self, "/", other)

    def __pow__(self, other):
        return _refuse(self, "**", other)

    def __lt__(self, other):
        if other.__class__ is int and not _waiting:  # by far the most frequent
            axes, said = self.axes, ("%s < %s", self.said, other)
            return Mask([Index(axes.times(-1), other - 1 - self.const, said)], axes.size, said)
        return _compare(other, self, 1, ("%s < %s", self.said, _of(other)))

    def __le__(self, other):
        return _compare(other, self, 0, ("%s <= %s", self.said, _of(other)))

    def __gt__(self, other):
        return _compare(self, other, 1, ("%s > %s", self.said, _of(other)))

    def __ge__(self, other):
        return _compare(self, other, 0, ("%s >= %s", self.said, _of(other)))

    def __eq__(self, other):
        said = "%s == %s", self.said, _of(other)
        a = _compare(self, other, 0, said)
        return a if a is NotImplemented else Mask(
            a.terms + _compare(other, self, 0, said).terms, a.size, said, equal=True)

    __hash__ = None

    def __bool__(self):
        raise KernelError("the value of %s differs over its axes: it cannot decide an "
                          "`if`" % self.text)

    def __int__(self):
        raise KernelError("%s is an index over an axis, not a number" % self.text)

    __index__ = __int__


def _of(x):
    """What a part of an expression is called, as _string takes it."""
    return x.said if x.__class__ is Index else x


def _refuse(a, op, b):
    raise KernelError("(%s) %s %s is not affine: an access pattern takes sums of indices times "
                      "whole numbers" % (a.text, op, b))


class Mask:
    """A conjunction of `term >= 0`, where each term is an Index. `size` are the axes that it is
    over."""

    __slots__ = ("terms", "size", "said", "equal", "ranges")

    def __init__(self, terms, size, said, equal=False):
        self.terms, self.size, self.said, self.equal = terms, size, said, equal
        self.ranges = None  # what mask_ranges has found

    text = property(lambda self: _string(self.said))

    def __repr__(self):
        return self.text

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
        n = max(len(self.size), len(other.size))
        size = [max(x, y) for x, y in zip([1] * (n - len(self.size)) + self.size,
                                          [1] * (n - len(other.size)) + other.size)]
        return Mask(self.terms + other.terms, size, ("(%s) & (%s)", self.said, other.said))

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
        return Mask([self.terms[0] * -1 + -1], self.size, ("~(%s)", self.said))

    def __bool__(self):
        """`a < i < b` and `m and n` ask a mask whether it is true. In both, the second part is made
        right after this, and holds together with this one; anything else is refused."""
        frame = sys._getframe(1)
        if not _is_and(frame):
            raise KernelError("the mask %s differs over its axes: it cannot decide an `if`; join "
                              "masks with `&`" % self.text)
        _waiting.append((self, frame.f_code, frame.f_lineno))
        return True


_waiting = []  # masks on the left of an `and` whose right side is not made yet


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
            axes = [i - t.ndim for i, c in enumerate(t.coef) if c]
            if len(axes) != 1 or abs(t.coef[axes[0]]) != 1:
                return None
            c = t.coef[axes[0]]
            key = (axes[0], c)
            found[key] = min(found.get(key, 1 << 62), t.const)
        return found
    x, y = bounds(a), bounds(b)
    return x is not None and y is not None and all(k in x and x[k] <= v for k, v in y.items())


def _compare(a, b, less, said):
    """The mask a - b - less >= 0."""
    if a.__class__ is not Index:
        k = a if a.__class__ is int else whole(a)
        if k is None:
            return NotImplemented
        difference = Index(b.axes.times(-1), k - less - b.const, said)
    elif b.__class__ is Index:
        difference = a - b + -less
    else:
        k = b if b.__class__ is int else whole(b)
        if k is None:
            return NotImplemented
        difference = Index(a.axes, a.const - k - less, said)
    mask = Mask([difference], difference.axes.size, said)
    if _waiting:
        left, code, line = _waiting.pop()
        frame = sys._getframe(2)
        if frame.f_code is code:
            return left & mask
        raise KernelError("the mask %s has no truth value: join masks with `&`" % left.text,
                          record.shown(code.co_filename), line)
    return mask


_made = {}  # what arange and mgrid have given, so that loops get the same objects again


def _once(key, make):
    """What make() gave for an equal key before, else what it gives now."""
    try:
        found = _made.get(key)
    except TypeError:  # numbers that have no hash
        return make()
    if found is None:
        if len(_made) >= MOST:
            _made.clear()
        found = _made[key] = make()
    return found


def arange(*args):
    """The index 0 .. n - 1, or start .. stop - 1 with a step, over one axis."""
    try:
        found = _made.get(args)
    except TypeError:  # numbers that have no hash
        found = None
    return _once(args, lambda: _arange(*args)) if found is None else found


def _arange(*args):
    text = "arange(%s)" % ", ".join(map(str, args))
    numbers = [whole(x) for x in args]
    if None in numbers or not 1 <= len(args) <= 3 or 0 in numbers[2:]:
        raise KernelError("%s: it takes one to three whole numbers: start, stop and a step" % text)
    start, stop, step = (0, numbers[0], 1) if len(args) == 1 else (numbers + [1])[:3]
    n = max(0, -((start - stop) // step))
    if n == 0:
        raise KernelError("%s is empty" % text)
    return Index(Axes([step], [n]), start, text, True)


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
        return _once(parts, lambda: _grid(parts))


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
        made.append(Index(Axes(coef, size), start, text, True))
    return _Grid(made)


mgrid = _MGrid()


class DynSlice:
    """start : start + size, of which start may be a register. `nl.ds(start, size)`."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start, self.size = start, size

    def __repr__(self):
        return "ds(%s, %s)" % (self.start, self.size)


def ds(start, size):
    """The elements start .. start + size - 1."""
    return DynSlice(start, size)


dslice = ds
