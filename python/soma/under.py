"""Views that a mask is to limit: t[mask], and slices past the end."""
from . import record
from .errors import KernelError, NotBuilt
from .masks import Mask, effective


class Masked:
    """t[mask]: of t what the mask leaves, for nl.load, nl.store and matmuls, and for assignments.
    It keeps t's shape."""

    def __init__(self, tensor, mask):
        self.tensor, self.mask = tensor, mask

    shape = property(lambda self: self.tensor.shape)
    dtype = property(lambda self: self.tensor.dtype)

    def __repr__(self):
        return "%r[%s]" % (self.tensor, self.mask)

    def __getitem__(self, key):
        if key.__class__ is not Mask:
            raise KernelError("%r: only a mask can follow a mask" % self)
        return Masked(self.tensor, self.mask & key)

    def assign(self, value):
        """`t[mask] = value`."""
        record.active().assign_under(self.mask, self.tensor, value)

    def as_tensor(self):
        """As an operand of a call that does not take it apart: only if the mask leaves all."""
        if effective(self.mask, self.tensor.shape) is not None:
            raise NotBuilt("t[mask] as an operand here: give mask= to the call")
        return self.tensor


class PastEnd:
    """In place of the bounds of a view by a slice past the end, which Python cuts off: `full` is
    the view as it was asked for, whose elements a mask limits."""

    __slots__ = ("full",)

    def __init__(self, full):
        self.full = full

    def __iter__(self):
        return iter(())


def as_asked(t):
    """A view for a call with a mask: with slices past the end as they were asked for."""
    return t.bound.full if getattr(t, "bound", None).__class__ is PastEnd else t
