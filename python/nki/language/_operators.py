"""Operators of tiles: `a + b` is nl.add(a, b), and so on. Importing this gives them to Tensor."""
import linecache

from soma import insn, record
from soma.errors import KernelError
from soma.index import Index
from soma.tensor import Tensor

from . import _math as m
from ._remainder import mod


def _operator(function):
    def forward(self, other):
        return NotImplemented if isinstance(other, Index) else function(self, other)

    def backward(self, other):
        return function(other, self)
    return forward, backward


def _in_place(function):
    """`a += b` writes a. In PSUM it adds a matmul to a sum."""
    def method(self, other):
        rec = record.active()
        if function is m.add and other.__class__ is Tensor and rec.fold(other, self):
            return self
        if self.memory == 0:
            result = function(load_of(self), other)
            insn.assign(self, result)
            return self
        rec.take(function(self, other), self)
        return self
    return method


def load_of(t):
    from ._memory import load
    return load(t)


_TABLE = {"add": m.add, "sub": m.subtract, "mul": m.multiply, "truediv": m.divide, "pow": m.power,
          "and": m.bitwise_and, "or": m.bitwise_or, "xor": m.bitwise_xor, "lshift": m.left_shift,
          "rshift": m.right_shift, "mod": mod}
for _name, _function in _TABLE.items():
    _forward, _backward = _operator(_function)
    setattr(Tensor, "__%s__" % _name, _forward)
    setattr(Tensor, "__r%s__" % _name, _backward)
    setattr(Tensor, "__i%s__" % _name, _in_place(_function))
for _name, _function in {"lt": m.less, "le": m.less_equal, "gt": m.greater,
                         "ge": m.greater_equal}.items():
    setattr(Tensor, "__%s__" % _name, _operator(_function)[0])


def _refused(what, instead):
    def method(self, *others):
        raise KernelError("%s of a tile is no operator of the machine: %s" % (what, instead))
    return method


for _name, _what, _instead in (("floordiv", "//", "nl.floor(x / y) computes it"),
                               ("divmod", "divmod()", "nl.floor(x / y) and x % y compute it"),
                               ("round", "round()", "a copy to an integer type rounds")):
    setattr(Tensor, "__%s__" % _name, _refused(_what, _instead))
    setattr(Tensor, "__r%s__" % _name, _refused(_what, _instead))


def _equality(function):
    """`tile == x` compares element by element; with None and other objects it asks for identity."""
    def method(self, other):
        if self is other or not self.memory or not (
                isinstance(other, (int, float)) or (isinstance(other, Tensor) and other.memory)):
            return NotImplemented
        return function(self, other)
    return method


Tensor.__eq__, Tensor.__ne__ = _equality(m.equal), _equality(m.not_equal)
Tensor.__neg__ = lambda self: m.negative(self)
Tensor.__invert__ = lambda self: m.invert(self)
Tensor.__abs__ = lambda self: m.abs(self)


def _in_while():
    """Whether the kernel is at a line that begins with `while`."""
    rec = record.active()
    name, line = rec.place_of(rec.where())
    return linecache.getline(name or "", line).lstrip().startswith("while")


def _bool(self):
    """`if bias:` is true for a tensor, where others have None. A value cannot be asked for: that of
    a comparison, of a tile of one element, of what a `while` is to end by."""
    one = self.size == 1 and (self.memory or self.shape != self.storage.shape)
    if self.pending is not None or one or _in_while():
        raise KernelError("the values of a tile are known when the kernel runs, not while it is "
                          "built: they cannot decide an `if`, a `while` or Python's max(); "
                          "nl.where chooses between two values for each element, nl.maximum takes "
                          "the larger; nisa.register_load and `while reg:` ask for one; `is not "
                          "None` asks whether there is a tile")
    return True


Tensor.__bool__ = _bool


def _matmul(self, other):
    from ._memory import matmul
    return matmul(self, other)


Tensor.__matmul__ = _matmul


def _broadcast_to(self, *sizes, shape=None, dtype=None, mask=None):
    """As nl.broadcast_to."""
    from ._memory import broadcast_to
    if shape is None:
        shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return broadcast_to(self, shape, dtype, mask)


def _astype(self, dtype):
    """A copy of another type."""
    from ._memory import copy
    return copy(self, dtype=dtype)


Tensor.broadcast_to = _broadcast_to
Tensor.astype = _astype
Tensor.expand_dims = lambda self, axis: self.expand_dim(axis)
Tensor.ptr = property(lambda self: self)
