"""NumPy arrays of types that NumPy does not have.

Without ml_dtypes a bfloat16 or 8-bit float array is a RawArray: an array of its bytes, which NumPy
does not calculate with, with `.soma_dtype`. Arithmetic, comparison and NumPy functions see the
values as float32; `.astype` converts; `.bits()` are the bits. `array(values_or_bits, dtype)` makes
one.
"""
import sys

import numpy as np

from . import dtypes


def _fields(dtype):
    """(exponent bits, mantissa bits, bias, has infinity) of an 8- or 16-bit float."""
    return {"bfloat16": (8, 7, 127, True), "float8_e5m2": (5, 2, 15, True),
            "float8_e4m3": (4, 3, 7, True), "float8_e3m4": (3, 4, 3, True),
            "float8_e4m3fn": (4, 3, 7, False)}[dtype.name]


def _table(dtype):
    """Values of all codes of an 8-bit type as float32."""
    if dtype.name == "float8_e8m0fnu":
        v = np.exp2(np.arange(256, dtype=np.float64) - 127).astype(np.float32)
        v[255] = np.nan
        return v
    e, m, bias, infinite = _fields(dtype)
    code = np.arange(1 << (1 + e + m), dtype=np.int64)
    exponent, fraction = (code >> m) & ((1 << e) - 1), code & ((1 << m) - 1)
    v = np.where(exponent == 0, fraction * 2.0 ** (1 - bias - m),
                 (1 + fraction * 2.0 ** -m) * np.exp2((exponent - bias).astype(np.float64)))
    top = exponent == (1 << e) - 1
    if infinite:
        v = np.where(top, np.where(fraction == 0, np.inf, np.nan), v)
    else:
        v = np.where(top & (fraction == (1 << m) - 1), np.nan, v)
    return np.where(code >> (e + m), -v, v).astype(np.float32)


_tables = {}


def bits_to_float(bits, dtype):
    """float32 values of raw bits (uint8 or uint16) of a type."""
    dtype = dtypes.find(dtype)
    if dtype.name == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype.name not in _tables:
        _tables[dtype.name] = _table(dtype)
    return _tables[dtype.name][bits]


def float_to_bits(values, dtype):
    """Raw bits of values, rounded to nearest even; overflow as the machine's casts have it."""
    dtype = dtypes.find(dtype)
    x = np.ascontiguousarray(values, dtype=np.float32)
    if dtype.name == "bfloat16":
        u = x.view(np.uint32).astype(np.uint64)
        r = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7FC0), r)
    v = bits_to_float(np.arange(256, dtype=np.uint8), dtype)
    if dtype.name == "float8_e8m0fnu":
        raise TypeError("float8_e8m0fnu holds scales: give its bits as uint8")
    return _nearest(x, v, _fields(dtype))


def _nearest(x, v, fields):
    e, m, _, infinite = fields
    finite = np.flatnonzero(np.isfinite(v[:128]))
    grid = v[:128][finite].astype(np.float64)
    a = np.abs(x).astype(np.float64)
    i = np.clip(np.searchsorted(grid, a), 1, len(grid) - 1)
    low, high = grid[i - 1], grid[i]
    up = (a - low > high - a) | ((a - low == high - a) & (i % 2 == 0))
    code = np.where(up, i, i - 1)
    limit = grid[-1] + (grid[-1] - grid[-2]) / 2
    over = (a > limit) | ((a == limit) & (len(grid) % 2 == 0))
    top = ((1 << e) - 1) << m
    code = np.where(over, top if infinite else 127, code)
    code = np.where(np.isnan(x), (top | 1 << (m - 1)) if infinite else 127, code)
    return (code | np.where(np.signbit(x), 128, 0)).astype(np.uint8)


class RawArray(np.ndarray):
    """Bits of a type that NumPy lacks. See the module's text."""

    soma_dtype = None

    def __array_finalize__(self, other):
        self.soma_dtype = getattr(other, "soma_dtype", None)

    def bits(self):
        """The bits as a plain array of unsigned integers, without a copy."""
        return self.view(np.ndarray).view("u%d" % self.itemsize)

    def floats(self):
        """The values as float32."""
        return bits_to_float(self.bits(), self.soma_dtype)

    def astype(self, dtype, *args, **kwargs):
        if dtypes.is_type(dtype) and dtypes.find(dtype) is self.soma_dtype:
            return self.copy()
        return array(self.floats(), dtype) if _needs_bits(dtype) else \
            self.floats().astype(dtype, *args, **kwargs)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return getattr(ufunc, method)(*map(_plain, inputs), **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        if function in (np.reshape, np.transpose, np.ravel, np.squeeze, np.expand_dims, np.copy):
            return super().__array_function__(function, types, args, kwargs)
        return function(*_plain(args), **{k: _plain(v) for k, v in kwargs.items()})

    def __getitem__(self, index):
        """A part; an element as a float32."""
        found = super().__getitem__(index)
        return self.floats()[index] if isinstance(found, np.void) else found

    def __iter__(self):
        return iter(self.floats()) if self.ndim == 1 else super().__iter__()

    def item(self, *index):
        return self.floats().item(*index)

    def __repr__(self):
        return "RawArray(%s, dtype=%s)" % (np.array2string(self.floats()), self.soma_dtype)

    def __str__(self):
        return str(self.floats())

    def __format__(self, spec):
        return format(self.floats(), spec) if self.ndim else format(float(self), spec)

    def __int__(self):
        return int(self.floats())

    def __bool__(self):
        return bool(self.floats())

    def tolist(self):
        return self.floats().tolist()

    def __float__(self):
        return float(self.floats())


def _plain(x):
    if isinstance(x, RawArray):
        return x.floats()
    if isinstance(x, (tuple, list)):
        return type(x)(_plain(v) for v in x)
    return x


def _needs_bits(dtype):
    return dtypes.is_type(dtype) and dtypes.find(dtype).numpy.kind == "V"


def array(values, dtype):
    """An array of `dtype` (a DType or its name). Unsigned integers of the type's width are taken as
    its bits, other numbers as values, which are rounded to nearest even."""
    dtype = dtypes.find(dtype)
    values = np.asarray(values)
    if dtype.float and values.dtype.kind == "u" and values.dtype.itemsize == dtype.size:
        return from_bits(values, dtype)
    if dtype.packed:
        return from_bits(values.view("u%d" % dtype.size), dtype)
    if dtype.name in ("float16", "float32") or not dtype.float:
        return values.astype(dtype.numpy)
    if dtype.numpy.kind != "V":
        return values.astype(dtype.numpy)
    return from_bits(float_to_bits(values, dtype), dtype)


def cast(values, dtype):
    """The values of an array as another type; unsigned integers are values too."""
    if not dtypes.is_type(dtype):
        return np.asarray(values).astype(dtype)
    values, t = np.asarray(_plain(values)), dtypes.find(dtype)
    return array(values.astype(np.float64) if t.float and values.dtype.kind in "uib" else values, t)


def from_bits(bits, dtype):
    """Bits (any array of the type's width) as an array of `dtype`, without a copy."""
    dtype = dtypes.find(dtype)
    bits = np.asarray(bits)
    if dtype.numpy.kind != "V":
        return bits.view(dtype.numpy)
    raw = bits.view(np.dtype("V%d" % dtype.size, metadata={"soma": dtype.name, "bits": True}))
    raw = raw.view(RawArray)
    raw.soma_dtype = dtype
    return raw


def host_array(x):
    """(contiguous array, DType) of anything that holds numbers: NumPy arrays, RawArray, tensors
    with `.detach().numpy()`, `__array__` or `__dlpack__`. TypeError for types that the machine does
    not have."""
    if isinstance(x, RawArray):
        return _dense(x.view(np.ndarray)), x.soma_dtype
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError("a masked array: its mask would be lost; give x.filled(0), or another "
                        "number for what is masked, and the mask as an array of its own")
    if not isinstance(x, np.ndarray):
        x = _foreign(x)
        if isinstance(x, tuple):
            return x
    if x.dtype == np.float64:
        raise TypeError("float64 arrays are not a type of the machine: use .astype(np.float32)")
    if not x.dtype.isnative:
        raise TypeError("an array of %s in the other order of bytes (%s): use .astype(np.%s)"
                        % (x.dtype.name, x.dtype.str, x.dtype.name))
    if x.dtype.kind == "V" and x.dtype.metadata and "bits" not in x.dtype.metadata and \
            np.ascontiguousarray(x).view(np.uint8).any():
        raise TypeError("NumPy does not convert to %s: make the array with soma.array(values, %r), "
                        "or install ml_dtypes" % ((x.dtype.metadata["soma"],) * 2))
    return _dense(x), dtypes.find(x.dtype)


def _dense(x):
    """An array whose elements lie in order; also of no dimensions, of which NumPy makes one."""
    return np.ascontiguousarray(x).reshape(x.shape)


# Types of torch that NumPy lacks, and those of their bits.
_BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def _foreign(x):
    if hasattr(x, "detach"):
        memory = _of_torch(x.cpu() if hasattr(x, "cpu") else x)
        name = str(x.dtype).replace("torch.", "")
        if name in _BITS:
            return _dense(memory), dtypes.find(name)
        return memory
    return np.asarray(x) if hasattr(x, "__array__") or not hasattr(x, "__dlpack__") else \
        of_dlpack(x)


def of_dlpack(x):
    """An array over the memory of an object that has only `__dlpack__`."""
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError("NumPy does not take this %s by DLPack: %s" % (type(x).__name__,
                                                                      error)) from None


def _of_torch(x):
    """The memory of a tensor of torch on the host, as an array; bits where NumPy lacks its type."""
    x = x.detach()
    bits = _BITS.get(str(x.dtype).replace("torch.", ""))
    if bits is None:
        return x.numpy()
    torch = sys.modules[type(x).__module__.partition(".")[0]]  # which made it
    memory = x.view(getattr(torch, bits)).numpy()
    return memory.view("u%d" % memory.itemsize)


def has_gradient(x):
    """Whether torch calculates a gradient of an argument, and would not see that it is written."""
    return bool(getattr(x, "requires_grad", False)) and \
        sys.modules[type(x).__module__.partition(".")[0]].is_grad_enabled()


def memory_of(x):
    """An array over the memory of an argument, to be written; None if there is no way to it."""
    if isinstance(x, np.ndarray):
        memory = x.view(np.ndarray)
    elif hasattr(x, "detach"):
        if str(getattr(x, "device", "cpu")) != "cpu":
            return None
        memory = _of_torch(x)
    else:
        memory, again = _foreign(x), _foreign(x)
        if not np.shares_memory(memory, again):  # copies
            return None
    return memory if memory.flags.writeable else None


def over(memory, shape, dtype):
    """Bytes that have NumPy's array interface as an array of a type, without a copy."""
    raw = np.asarray(memory).view("u%d" % dtype.size) if dtype.numpy.kind == "V" else \
        np.asarray(memory).view(dtype.numpy)
    raw = raw.reshape(shape)
    return from_bits(raw, dtype) if dtype.numpy.kind == "V" else raw


def empty(shape, dtype):
    """(array to hand out, contiguous buffer behind it) of a type, zeroed."""
    dtype = dtypes.find(dtype)
    if dtype.numpy.kind == "V":
        raw = np.zeros(shape, "u%d" % dtype.size)
        return from_bits(raw, dtype), raw
    a = np.zeros(shape, dtype.numpy)
    return a, a
