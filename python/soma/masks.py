"""Masks, and what one leaves: bounds of single axes, and terms over several."""
import dis
import math
import sys

import numpy as np

from . import record
from .errors import KernelError
from .index import Index
from .native import _soma


class Mask(_soma.Mask):
    """A conjunction of `term >= 0`, where each term is an Index. `size` are the axes that it is
    over."""

    __slots__ = ()

    text = property(lambda self: Index.string(self.said))

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
        for a, b in ((self, other), (other, self)):
            if mask_ranges(a)[2] or (_implies(a, b) and not mask_ranges(b)[2]):
                return b
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


_soma.use(Mask=Mask)


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
    (ranges, rest, _), (others, more, _) = mask_ranges(a), mask_ranges(b)
    return len(a.size) == len(b.size) and not rest and not more and all(
        axis in ranges and lo <= ranges[axis][0] and ranges[axis][1] <= hi
        for axis, (lo, hi) in others.items())


class Ranges(tuple):
    """What mask_ranges gives; a tuple of the user's is no mask."""


def mask_ranges(mask):
    """({axis: (lo, hi)}, terms over several axes, empty) of a mask, or of what this has returned;
    {} and no terms for None or True. The terms are no box together with the ranges."""
    if mask is None or mask is True:
        return Ranges(({}, [], False))
    if mask is False:
        return Ranges(({}, [], True))
    if mask.__class__ is Ranges:
        return mask
    if not isinstance(mask, Mask):
        raise KernelError("mask=%r: a mask is made of comparisons of indices" % (mask,))
    if mask.ranges is None:
        ranges, rest, empty = mask.limits()
        mask.ranges = Ranges(_several(ranges, rest) if rest else (ranges, rest, empty))
    return mask.ranges


def effective(mask, *shapes):
    """The mask, or None if it leaves out nothing of any of these shapes."""
    if mask.__class__ is Mask and mask.leaves_all(*shapes):
        return None
    ranges, rest, empty = mask_ranges(mask)
    cuts = any(lo or (axis < len(shape) and hi < shape[axis])
               for axis, (lo, hi) in ranges.items() for shape in shapes)
    return mask if rest or empty or cuts else None


def _several(ranges, rest):
    """The same with terms over several axes: those that hold everywhere within the bounds of one
    axis go, and what is left may be a box after all."""
    left = []
    for t in rest:
        low = high = t.const
        for a in t.varies:
            ends = [t.coef[a] * k for k in _span(ranges, t, a)]
            low, high = low + min(ends), high + max(ends)
        if high < 0:
            return {}, [], True
        if low < 0:
            left.append(t)
        else:
            for a in t.varies:
                ranges.setdefault(a, (0, t.size[a]))
    boxes = pieces(ranges, left, 1) if left else None
    if boxes is None:
        return ranges, left, False
    return (boxes[0], [], False) if boxes else ({}, [], True)


def _span(ranges, t, axis):
    """The first and the last number of an axis."""
    lo, hi = ranges.get(axis, (0, t.size[axis]))
    return lo, hi - 1


LARGEST = 1 << 22  # elements of a mask that is looked at one by one


def pieces(ranges, rest, most):
    """The boxes, as ranges, whose union is what a mask with terms over several axes leaves; None if
    they are more than `most`."""
    axes = sorted({a for t in rest for a in t.varies})
    sizes = {a: t.size[a] for t in rest for a in t.varies}
    bounds = [ranges.get(a, (0, sizes[a])) for a in axes]
    shape = [hi - lo for lo, hi in bounds]
    if math.prod(shape) > LARGEST:
        return None
    keep = np.ones(shape, bool)
    for t in rest:
        value = np.full([1] * len(axes), t.const)
        for i, a in enumerate(axes):
            steps = np.arange(*bounds[i]) * t.coef[a]
            value = value + steps.reshape([-1 if j == i else 1 for j in range(len(axes))])
        keep &= value >= 0
    boxes = _boxes(keep, most)
    return None if boxes is None else [{**ranges, **{
        a: (bounds[i][0] + lo, bounds[i][0] + hi)
        for i, (a, (lo, hi)) in enumerate(zip(axes, box))}} for box in boxes]


def _boxes(keep, most):
    """The true elements of an array as boxes, each a (first, end) of every axis; None if they are
    more than `most`."""
    flat = keep.reshape(len(keep), -1)
    ends = [0] + (np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1)) + 1).tolist() + [len(keep)]
    found = []
    for lo, hi in zip(ends, ends[1:]):
        if not flat[lo].any():
            continue
        inner = [()] if keep.ndim == 1 else _boxes(keep[lo], most)
        if inner is None or len(found) + len(inner) > most:
            return None
        found += [((lo, hi),) + box for box in inner]
    return found
