"""Whole numbers, checked. No number goes to the library but by here, by pack() or by an array:
ctypes would cut it to the bits that it takes."""
import numbers

from .errors import KernelError


def whole(x):
    """x as an int if it is a whole number (of Python or NumPy), else None."""
    if isinstance(x, int):
        return int(x)
    if hasattr(x, "__index__"):
        try:
            return x.__index__()
        except (TypeError, KernelError):  # a register, an index
            return None
    if isinstance(x, float) and x.is_integer():
        return int(x)
    return None


def between(x, low, high, what):
    """x as an int, if it is a whole number from low to high. The error names it, and `what` it
    is."""
    k = whole(x)
    if k is None:
        text = repr(x)
        raise KernelError("%s is %s: it must be a whole number" % (
            what, text if len(text) <= 60 else text[:57] + " ..."))
    if not low <= k <= high:
        raise KernelError("%s is %d: it must be %d to %d" % (what, k, low, high))
    return k


def word(x, what):
    """The same for a signed number of 32 bits, as registers hold it."""
    return between(x, -1 << 31, (1 << 31) - 1, what)


def femtoseconds(ns, what):
    """A time of 0 to 1e12 ns in fs; the error names it."""
    if not isinstance(ns, numbers.Real) or not 0 <= ns <= 1e12:
        raise ValueError("%s=%r: expected a time in nanoseconds, 0 to 1e12" % (what, ns))
    return round(float(ns) * 1e6)
