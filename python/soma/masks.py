"""What a mask leaves: bounds of single axes, and terms over several."""
import math

import numpy as np

from .errors import KernelError
from .index import Mask


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
        mask.ranges = Ranges(_mask_ranges(mask))
    return mask.ranges


def effective(mask, *shapes):
    """The mask, or None if it leaves out nothing of any of these shapes."""
    if mask.__class__ is Mask and mask.leaves_all(*shapes):
        return None
    ranges, rest, empty = mask_ranges(mask)
    if rest or empty:
        return mask
    for axis, (lo, hi) in ranges.items():
        for shape in shapes:
            if lo or (axis < len(shape) and hi < shape[axis]):
                return mask
    return None


def _mask_ranges(mask):
    ranges, rest = {}, []
    for t in mask.terms:
        varies = t.varies
        if not varies:
            if t.const < 0:
                return {}, [], True
            continue
        if len(varies) > 1:
            rest.append(t)
            continue
        a, = varies
        c, n = t.coef[a], t.size[a]
        lo, hi = ranges.get(a, (0, n))
        if c > 0:
            lo = max(lo, -(t.const // c))
        else:
            hi = min(hi, t.const // -c + 1)
        if lo >= hi:
            return {}, [], True
        ranges[a] = (lo, hi)
    return _several(ranges, rest) if rest else (ranges, rest, False)


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
