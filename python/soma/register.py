"""Registers of the sequencers, and what is computed from them while a kernel is built.

A Register is a place; a RegisterValue is const + sum of register * whole number, which is what an
address may be: `x[i * 128 : (i + 1) * 128]` has a length that is known. A register holds a whole
number, or a float32 if that was loaded into it.
"""
import itertools
import linecache
import math
import numbers
import sys

import numpy as np

from . import record
from .checked import whole
from .errors import KernelError
from .index import Index


_clock = itertools.count(1)  # of writes to registers, and of what is computed from them


class RegisterValue:
    """const + the sum over registers of times * register; `made`: when it was computed."""

    __slots__ = ("terms", "const", "made")
    __array_ufunc__ = None

    def __init__(self, terms, const=0, made=None):
        self.terms, self.const = terms, const
        self.made = next(_clock) if made is None else made

    def __repr__(self):
        return " + ".join(["%d * %r" % (k, r) for r, k in self.terms.items()] + [str(self.const)])

    def _plus(self, other, sign):
        o = value_of(other)
        if isinstance(other, Index):
            return IndexAt(other if sign > 0 else -other, self)
        if o is None:
            return NotImplemented
        terms = dict(self.terms)
        for r, k in o.terms.items():
            terms[r] = terms.get(r, 0) + sign * k
        return RegisterValue({r: k for r, k in terms.items() if k}, self.const + sign * o.const,
                             min(self._made(), o._made()))

    def _made(self):
        return self.made

    def __add__(self, other):
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        return self._plus(other, -1)

    def __rsub__(self, other):
        return (self * -1)._plus(other, 1)

    def __neg__(self):
        return self * -1

    def __mul__(self, other):
        k = whole(other)
        if k is None:
            if isinstance(other, (Register, RegisterValue)):
                raise KernelError("%r * %r: an address takes registers times whole numbers"
                                  % (self, other))
            return self._for_python(other, "* %s" % (other,), _ARITHMETIC)
        return RegisterValue({r: n * k for r, n in self.terms.items() if n * k}, self.const * k,
                             self._made())

    __rmul__ = __mul__

    def is_float(self):
        """Whether it is a register with a float32."""
        return False

    def stays(self, d, n, low=0, high=0):
        """Refuses it as a place in dimension d of n elements, of which low .. high from there are
        used, if the bounds of loops say that some round leaves the dimension."""
        for r, k in self.terms.items():
            if r.limits is None or r.ended:
                return
            ends = sorted((k * r.limits[0], k * r.limits[1]))
            low, high = low + ends[0], high + ends[1]
        if low + self.const < 0 or high + self.const >= n:
            raise KernelError("elements %d to %d of dimension %d, which has %d: so far %r goes in "
                              "its loop at run time" % (low + self.const, high + self.const, d, n,
                                                        self))

    def check(self):
        """Refuses what cannot be computed any more, or from floats."""
        for r in self.terms:
            if r.number() and r.kind == "float32":
                raise KernelError("%r holds a float32: a whole number is needed here" % r)
            if r.written > self._made():
                raise KernelError("%r was written after %r was computed from it: put that into a "
                                  "register by nisa.register_move first" % (r, self))

    def _unknown(self, what, instead="a loop over it is nl.dynamic_range, nl.fori_loop or `while "
                 "reg:`"):
        raise TypeError("%s of register value %r: it is known when the kernel runs, not while it "
                        "is built; %s" % (what, self, instead))

    def __bool__(self):
        self._unknown("the truth value")

    def __int__(self):
        self._unknown("int()")

    def __index__(self):
        self._unknown("range(), a list's index or the like")

    def __format__(self, how):
        return self._unknown("a number as text") if how else repr(self)

    def _for_python(self, other, what, *instead):
        if not isinstance(other, (numbers.Number, np.generic, np.ndarray, RegisterValue, Index)):
            return NotImplemented  # a tile knows how
        return self._unknown(what, *instead)

    def __eq__(self, other):
        return self is other or self._for_python(other, "a comparison")

    def __hash__(self):
        if not record.is_own(sys._getframe(1).f_code.co_filename):
            self._unknown("the look-up")  # in a dict or set, which would not find the number
        return id(self)

    def __lt__(self, other):
        return self._for_python(other, "a comparison")

    __le__ = __gt__ = __ge__ = __lt__


_ARITHMETIC = "only +, - and * by a whole number are computed of it"


def _refused(what):
    def one(self, *more):
        self._unknown(what, _ARITHMETIC)

    def two(self, other, *more):
        return self._for_python(other, what, _ARITHMETIC)
    return one, two


for _name, _what in {"truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "lshift": "<<",
                     "rshift": ">>", "and": "&", "or": "|", "xor": "^", "matmul": "@",
                     "divmod": "divmod()"}.items():
    setattr(RegisterValue, "__%s__" % _name, _refused(_what)[1])
    setattr(RegisterValue, "__r%s__" % _name, _refused(_what)[1])
for _name, _what in {"invert": "~", "abs": "abs()", "round": "round()", "float": "float()",
                     "complex": "complex()", "trunc": "math.trunc()", "floor": "math.floor()",
                     "ceil": "math.ceil()"}.items():
    setattr(RegisterValue, "__%s__" % _name, _refused(_what)[0])


class Register(RegisterValue):
    """A register. `while reg:` is a loop that runs as long as it is not 0."""

    __slots__ = ("handle", "frozen", "ended", "kind", "written", "limits")

    def __init__(self, number=None, frozen=False, limits=None):
        self.handle = record.active().new_register() if number is None else number
        self.frozen, self.ended = frozen, False
        self.limits = limits  # the least and the greatest value, of a loop whose bounds are known
        self.kind, self.written = "int32", 0
        super().__init__({self: 1}, 0)

    def __repr__(self):
        return "reg%d" % self.handle

    def state(self):
        """What can be compared between rounds of a loop."""
        return self.handle, self.ended, self.kind

    def _made(self):
        return math.inf  # it is read when it is used

    def writes(self, kind):
        """A value of a type is written into it."""
        self.kind, self.written = kind, next(_clock)

    def is_float(self):
        return self.kind == "float32"

    def number(self):
        """The builder's number of it."""
        if self.ended:
            raise KernelError("the variable of a loop at run time has no value after its loop: "
                              "keep what is needed in a register of nisa.register_alloc")
        return self.handle

    def __bool__(self):
        frame = sys._getframe(1)
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not line.strip().startswith("while"):
            raise TypeError("%s:%d: the truth value of a register is known when the kernel runs, "
                            "not while it is built: only `while reg:` asks for it"
                            % (record.shown(frame.f_code.co_filename), frame.f_lineno))
        from .loops import ask
        return ask(self, frame)


class IndexAt:
    """An index object moved by a register: `i * 128 + nl.arange(128)[:, None]`."""

    __slots__ = ("index", "start")

    def __init__(self, index, start):
        self.index, self.start = index, start

    def __repr__(self):
        return "%r + %s" % (self.start, self.index.text)

    def __add__(self, other):
        if isinstance(other, RegisterValue):
            return IndexAt(self.index, self.start + other)
        if isinstance(other, IndexAt):
            return IndexAt(self.index + other.index, self.start + other.start)
        return IndexAt(self.index + other, self.start)

    __radd__ = __add__

    def __sub__(self, other):
        return self + -1 * other

    def __mul__(self, other):
        return IndexAt(self.index * other, self.start * other)

    __rmul__ = __mul__

    def __lt__(self, other):
        raise KernelError("a comparison of %r: the bounds of a mask are known while the kernel is "
                          "built, not when it runs" % self)

    __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __lt__
    __hash__ = None


def value_of(x):
    """x as a RegisterValue if it is one or a whole number, else None."""
    if isinstance(x, RegisterValue):
        return x
    k = whole(x)
    return None if k is None else RegisterValue({}, k)
