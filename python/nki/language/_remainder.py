"""Remainders, which the hardware does not have: each is made of several instructions, and exact
while quotient times divisor is, such as for whole numbers below 2^24."""
import math

from soma.dtypes import find, float32
from soma.errors import KernelError

from ._math import (_is_tile, _tile, abs, add, divide, floor, greater_equal, less, multiply, sign,
                    subtract)


def fmod(x, y, dtype=None, mask=None):
    """The remainder of x / y with the sign of x, as C has it; see the module's text."""
    x, size, _, kind = _parts("fmod", x, y, dtype)
    if not _is_tile(x):
        return multiply(_within(math.fabs(x), size), math.copysign(1.0, x), kind, mask)
    return multiply(_within(abs(x, float32), size), sign(x, float32), kind, mask)


def mod(x, y, dtype=None, mask=None):
    """The remainder of x / y with the sign of y, as Python has it; see the module's text."""
    x, size, signs, kind = _parts("mod", x, y, dtype)
    return multiply(_within(multiply(x, signs, float32), size), signs, kind, mask)


def _parts(name, x, y, dtype):
    """(x, the size of y, its sign, the type of the result)."""
    x, y = _tile(x, "nl." + name), _tile(y, "nl." + name)
    if not _is_tile(x) and not _is_tile(y):
        raise KernelError("nl.%s of %r and %r: one operand must be a tile" % (name, x, y))
    if not _is_tile(y) and not y:
        raise KernelError("nl.%s of a tile and 0: there is no remainder" % name)
    kind = find(dtype) if dtype is not None else (x if _is_tile(x) else y).dtype
    if _is_tile(y):
        return x, abs(y, float32), sign(y, float32), kind
    return x, math.fabs(y), math.copysign(1.0, y), kind


def _within(x, size):
    """x - size * floor(x / size), in [0, size). A quotient by a reciprocal may be one off: two
    steps mend that."""
    r = subtract(x, multiply(floor(divide(x, size, float32)), size, float32), float32)
    r = add(r, multiply(less(r, 0.0, float32), size, float32), float32)
    return subtract(r, multiply(greater_equal(r, size, float32), size, float32), float32)
