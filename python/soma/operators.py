"""Operators, NumPy's functions and methods of tensors on a device. Operands on one device give a
result there; with one on the host the result is on the host."""
import numbers

import numpy as np

from . import arithmetic, dtypes
from .errors import SomaError
from .layout import Lies, broadcast, product

COMPARE = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
BITWISE = {"bitwise_and", "bitwise_or", "bitwise_xor"}
BINARY = {"add", "subtract", "multiply", "divide", "power", "maximum", "minimum"} | COMPARE | \
    BITWISE
FUNCTIONS = {"exp", "log", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "reciprocal", "gelu", "silu",
             "square", "sign", "relu", "sin", "cos"}  # of floats
UNARY = FUNCTIONS | {"negative", "abs"}
_NAMES = {"true_divide": "divide", "absolute": "abs", "float_power": "power"}  # NumPy's


def _of_device(x):
    return isinstance(x, Operators)


def _one_device(name, tensors):
    found = {t.device for t in tensors}
    if len(found) > 1:
        raise SomaError("%s: operands on %s: use t.to()"
                        % (name, " and ".join(sorted(d.name for d in found))))
    return found.pop()


def result_type(name, types, given):
    """The type of a result: of operands' types and numbers. Division of integers and an integer
    with a number that has a fraction give float32."""
    if name in COMPARE:
        return dtypes.bool_
    found = types[0]
    for t in types[1:]:
        found = dtypes.promote(found, t)
    if name in BITWISE:
        if found.float or any(not isinstance(n, numbers.Integral) for n in given):
            raise TypeError("%s of %s: it takes integers" % (name, found))
        return found
    whole = all(isinstance(n, numbers.Integral) for n in given)
    if not found.float and (name == "divide" or name in FUNCTIONS or not whole):
        return dtypes.float32
    return dtypes.int32 if found is dtypes.bool_ else found


class Operators(np.lib.mixins.NDArrayOperatorsMixin):
    """The arithmetic of a DeviceArray."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        name = _NAMES.get(ufunc.__name__, ufunc.__name__)
        tensors = [x for x in inputs if _of_device(x)]
        here = method == "__call__" and not options and all(
            _of_device(x) or isinstance(x, (bool, int, float)) for x in inputs)
        if out is not None and not (here and len(out) == 1 and _of_device(out[0])):
            raise SomaError("%s: a result on a device needs all operands there, or numbers" % name)
        if not here:
            return getattr(ufunc, method)(*(x.numpy() if _of_device(x) else x for x in inputs),
                                          **options)
        if name == "matmul":
            if out is not None:
                out[0].assign(_matmul(*inputs))
                return out[0]
            return _matmul(*inputs)
        if name not in BINARY | UNARY:
            raise SomaError("%s is not built for tensors on a device: use t.numpy()" % name)
        return _elementwise(name, inputs, tensors, out[0] if out else None)

    __array_priority__ = 100

    def __bool__(self):
        if self.size != 1:
            raise ValueError("a tensor of %d elements is not true or false: use t.numpy()"
                             % self.size)
        return bool(self.numpy())

    def __float__(self):
        return float(self.numpy())

    def item(self):
        """The value of a tensor of one element."""
        return self.numpy().item()

    def __hash__(self):
        return id(self)

    def astype(self, dtype):
        """A copy of another type, on the device."""
        out = self.device.zeros(self.shape, dtype)
        arithmetic.copy(Lies(self), Lies(out))
        return out

    def copy(self):
        return self.astype(self._type)

    def assign(self, source):
        """Overwrites it with a tensor of the device, an array of the host or a number, broadcast
        and converted."""
        if isinstance(source, (bool, int, float)):
            self.fill(source)
            return
        if not _of_device(source):
            source = self.device.array(source)
        _one_device("assign", [self, source])
        if broadcast("assign", [self.shape, source.shape]) != self.shape:
            raise ValueError("assign: %r does not fit in %r" % (source, self))
        arithmetic.copy(Lies(source), Lies(self))

    def __setitem__(self, index, value):
        """Overwrites rows, as t[i].assign(value)."""
        rows = self[index]
        if not (_of_device(value) and value._root is rows._root and value._at == rows._at and
                (value.shape, value._type) == (rows.shape, rows._type)):  # what t[i] *= 2 gives
            rows.assign(value)

    def _reduce(self, name, axis, keepdims):
        if not self._type.float:
            raise TypeError("%s on a device takes floats, not %s: use astype" % (name, self._type))
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        for a in axes:
            if not -self.ndim <= a < self.ndim:
                raise ValueError("%s: axis %d of a tensor with %d dimensions" % (name, a,
                                                                               self.ndim))
        axes, found = sorted({a % self.ndim for a in axes}, reverse=True), self
        for a in axes:
            shape = found.shape[:a] + found.shape[a + 1:]
            out = self.device.zeros(shape, self._type if name in ("max", "min")
                                    else dtypes.float32)
            arithmetic.reduce(name, Lies(found), a, Lies(out))
            found = out
        kept = tuple(1 if d in axes else n for d, n in enumerate(self.shape))
        return found.reshape(kept) if keepdims else found

    def sum(self, axis=None, keepdims=False):
        return self._reduce("sum", axis, keepdims)

    def mean(self, axis=None, keepdims=False):
        return self._reduce("mean", axis, keepdims)

    def max(self, axis=None, keepdims=False):
        return self._reduce("max", axis, keepdims)

    def min(self, axis=None, keepdims=False):
        return self._reduce("min", axis, keepdims)


def _method(name):
    def method(self):
        return _elementwise(name, (self,), [self], None)
    method.__name__, method.__doc__ = name, "%s of each element, on the device." % name
    return method


for _name in sorted(UNARY):
    setattr(Operators, _name, _method(_name))


def _elementwise(name, inputs, tensors, out):
    device = _one_device(name, tensors + ([] if out is None else [out]))
    shape = broadcast(name, [t.shape for t in tensors])
    if out is None:
        dtype = result_type(name, [t._type for t in tensors],
                            [x for x in inputs if not _of_device(x)])
        out = device.zeros(shape, dtype)
    elif out.shape != shape:
        raise ValueError("%s: a result of shape %s in %r" % (name, list(shape), out))
    arithmetic.elementwise(name, [Lies(x) if _of_device(x) else x for x in inputs], Lies(out))
    return out


def where(condition, x, y):
    """x where the condition is true, else y, on the device of the condition."""
    inputs = (condition, x, y)
    tensors = [t for t in inputs if _of_device(t)]
    device = _one_device("where", tensors)
    types = [t._type for t in tensors[1:]] or [dtypes.float32]
    out = device.zeros(broadcast("where", [t.shape for t in tensors]),
                       result_type("add", types, [n for n in inputs if not _of_device(n)]))
    arithmetic.elementwise("where", [Lies(t) if _of_device(t) else t for t in inputs], Lies(out))
    return out


def _matmul(x, y):
    for t in (x, y):
        if not _of_device(t):
            raise TypeError("matmul takes tensors, not numbers")
    device = _one_device("matmul", [x, y])
    if x._type is not y._type or not x._type.float:
        raise TypeError("matmul of %s and %s: they must be floats of one type"
                        % (x._type, y._type))
    if x.ndim < 1 or y.ndim != 2 or x.shape[-1] != y.shape[0]:
        raise ValueError("matmul: %r and %r: [..., K] and [K, N] are needed" % (x, y))
    out = device.zeros(x.shape[:-1] + y.shape[1:], x._type)
    rows = product(x.shape[:-1])
    arithmetic.matmul(Lies(x.reshape(rows, -1)), Lies(y), Lies(out.reshape(rows, -1)))
    return out
