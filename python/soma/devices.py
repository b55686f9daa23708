"""Tensors in the HBM of an emulated device, which stay there from one kernel to the next.

    dev = soma.device("neuron:0")
    x = dev.array(np.ones((128, 512), np.float32))   # copied to HBM
    y = kernel2(kernel1(x))                          # both run there; nothing is copied
    y.numpy()

Kernels whose arrays are all on one device work in its HBM and leave their results there. If one is
on the host, all results come to the host.
"""
import ctypes as C
import sys

import numpy as np

from . import arithmetic, arrays, dtypes, sessions
from . import lib as L
from .checked import between, whole
from .errors import SomaError
from .layout import Lies
from .lib import lib
from .operators import Operators
from .targets import need_target

MOST = 63  # devices are neuron:0 to neuron:63, as in Lua
_devices = {}


def device(name="neuron:0", target=None, **options):
    """The device of that name: neuron:N, or N alone. It is made at the first call, for a target
    (default: trn2, or what NEURON_PLATFORM_TARGET_OVERRIDE says) and with options of soma.Machine;
    later calls give the same one, and refuse others."""
    number = _number(name)
    found = _devices.get(number)
    if found is None or found.closed:
        found = _devices[number] = Device(number, target, options)
    elif target and need_target(target) != found.target or options and options != found.options:
        raise SomaError("neuron:%d is there already, for %s with other options: close() it first"
                        % (number, found.target))
    return found


def _number(name):
    text = str(name)
    for front in ("neuron:", "privateuseone:"):
        if text.startswith(front):
            text = text[len(front):]
    if text in ("neuron", "privateuseone"):
        text = "0"
    if not text.isdecimal() or int(text) > MOST:
        raise SomaError("there is no device %r: expected neuron:0 to neuron:%d" % (name, MOST))
    return int(text)


class Device:
    """HBM and a core on it. `hbm` is how much is used; `host_to_device` and `device_to_host` count
    the bytes that were copied."""

    def __init__(self, number, target, options):
        from nki._target import target_of
        from .machine import Machine
        self.name, self.options, self.closed = "neuron:%d" % number, dict(options), False
        self.target = target_of(target)
        self.machine, self._link = Machine(self.target, **options), None
        self.arithmetic = {"runs": 0, "programs": 0, "time_ns": 0.0}

    def __repr__(self):
        return "<device %s, %s, %d bytes of HBM used>" % (self.name, self.target, self.hbm["used"])

    def close(self):
        """Ends the device: its tensors can no longer be read. Its name can then be made anew."""
        self.closed = True
        if _devices.get(_number(self.name)) is self:
            del _devices[_number(self.name)]
        self.machine = None

    def _open(self):
        if self.closed:
            raise SomaError("%s has been closed" % self.name)
        return self.machine

    # ---- Tensors ----

    def array(self, x, dtype=None):
        """A copy of an array, of its type or another, in HBM. A tensor of this device is itself."""
        if isinstance(x, DeviceArray) and x.device is self and dtype is None:
            return x
        if dtype is not None:
            x = arrays.array(x.numpy() if isinstance(x, DeviceArray) else x, dtype)
        known = hasattr(x, "shape") or hasattr(x, "__dlpack__")
        data, kind = arrays.host_array(x if known else np.asarray(x))
        t = self.zeros(data.shape, kind)
        t._write(data)
        return t

    def zeros(self, shape, dtype=np.float32):
        """A tensor of zeros. It takes memory of the host only when it is written."""
        m, kind = self._open(), dtypes.find(dtype)
        shape = _shape(shape)
        handle = C.c_void_p()
        m._check(lib.soma_tensor_new(m.handle, kind.code, max(len(shape), 1),
                                     (C.c_int64 * max(len(shape), 1))(*(shape or (1,))),
                                     C.byref(handle)))
        return DeviceArray(self, handle, shape, kind)

    empty = zeros  # what new memory holds is defined here

    def full(self, shape, value, dtype=np.float32):
        """A tensor of one value, filled on the device."""
        t = self.zeros(shape, dtype)
        t.fill(value)
        return t

    def ones(self, shape, dtype=np.float32):
        return self.full(shape, 1, dtype)

    # ---- What it holds ----

    @property
    def hbm(self):
        """{capacity, used, high_water, free, largest_free, blocks} in bytes."""
        u = L.HbmUsage()
        lib.soma_hbm_stats(self._open().handle, C.byref(u), C.sizeof(u))
        return {n: getattr(u, n) for n in ("capacity", "used", "high_water", "free",
                                           "largest_free", "blocks")}

    def _traffic(self):
        up, down = C.c_uint64(), C.c_uint64()
        lib.soma_traffic(self._open().handle, C.byref(up), C.byref(down))
        return up.value, down.value

    def host_us(self, n):
        """The time of so many bytes over the host's link, one way."""
        if self._link is None:
            text, size = C.c_void_p(), C.c_size_t()
            m = self._open()
            m._check(lib.soma_costs_print(m.handle, None, C.byref(text), C.byref(size)))
            rows = [line.split() for line in L.take_bytes(text, size).decode().splitlines()]
            found = {row[0]: float(row[1]) for row in rows if row}
            self._link = found["HOST_LATENCY"] / 1e3, found["HOST_LINK"]  # us, bytes a us
        return self._link[0] + n / self._link[1] if n else 0.0

    host_to_device = property(lambda self: self._traffic()[0])
    device_to_host = property(lambda self: self._traffic()[1])


def _shape(shape):
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    found = tuple(between(n, 1, (1 << 63) - 1, "a size of the shape %r" % (shape,)) for n in parts)
    if len(found) > 8:
        raise ValueError("the shape %r has %d dimensions: a tensor has at most 8" %
                         (shape, len(found)))
    return found


class DeviceArray(Operators, L.Owner):
    """A dense tensor in a device's HBM. np.asarray(t), t.numpy() and t.to("cpu") copy it to the
    host; t[i], t[a:b] and t.reshape() are views that share its memory."""

    _free = "soma_tensor_free"
    _instead = "device.array(t.numpy()) makes another"

    def __init__(self, device, handle, shape, dtype, root=None, at=0):
        self.device, self.handle, self.shape, self._type = device, handle, tuple(shape), dtype
        # What stands for the memory that views share, and where in it they begin.
        self._root, self._at = root or object(), at
        self.copy_of = None  # the tensor of torch of which it is a dense copy
        if dtype.numpy.kind == "V":
            self.soma_dtype = dtype

    dtype = property(lambda self: self._type.numpy)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape, dtype=object)))
    nbytes = property(lambda self: self.size * self._type.size)

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __repr__(self):
        return "<%s%s on %s>" % (self._type.name, list(self.shape), self.device.name)

    # ---- Copies ----

    def _check(self, status):
        self.device._open()._check(status)

    def _write(self, data):
        self._check(lib.soma_tensor_write(self.handle, data.ctypes.data, data.nbytes))
        sessions.copied(self.device, bytes_in=data.nbytes)

    def numpy(self):
        """A copy on the host."""
        self.device._open()
        out, raw = arrays.empty(self.shape, self._type)
        self._check(lib.soma_tensor_read(self.handle, raw.ctypes.data, raw.nbytes))
        sessions.copied(self.device, bytes_out=raw.nbytes)
        return out

    def __array__(self, dtype=None, copy=None):
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __dlpack__(self, **options):
        """A copy on the host, as DLPack."""
        return self.numpy().__dlpack__()

    def __dlpack_device__(self):
        return 1, 0  # the CPU

    def to(self, where):
        """The tensor on "cpu" (a NumPy array) or on a device: itself if it is there."""
        if str(where) in ("cpu", "host"):
            return self.numpy()
        to = where if isinstance(where, Device) else device(where)
        return self if to is self.device else to.array(self.numpy())

    def cpu(self):
        return self.numpy()

    def fill(self, value):
        """Fills it with one value, without a copy from the host."""
        self._fill(np.ascontiguousarray(arrays.array(np.asarray(value), self._type)))

    def _fill(self, one):
        """Repeats the bytes of an array over all of the tensor."""
        self._check(lib.soma_tensor_fill(self.handle, 0, one.ctypes.data, one.nbytes,
                                         self.nbytes // one.nbytes))

    # ---- Views ----

    def _view(self, offset, shape, dtype=None):
        kind, handle = dtype or self._type, C.c_void_p()
        sizes = shape or (1,)
        self._check(lib.soma_tensor_view(self.handle, offset, kind.code, len(sizes),
                                         (C.c_int64 * len(sizes))(*sizes), C.byref(handle)))
        return DeviceArray(self.device, handle, shape, kind, self._root, self._at + offset)

    def reshape(self, *shape):
        """The same bytes in another shape; one size may be -1."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        wanted = [whole(n) for n in wanted]
        if wanted.count(-1) == 1:
            known = int(np.prod([n for n in wanted if n != -1], dtype=object))
            wanted[wanted.index(-1)] = self.size // known if known else 0
        if None in wanted or int(np.prod(wanted, dtype=object)) != self.size or \
                any(n < 1 for n in wanted):
            raise ValueError("%r has %d elements: it cannot be reshaped to %r" %
                             (self, self.size, shape))
        return self._view(0, tuple(wanted))

    def view(self, dtype):
        """The same bytes as another type, which changes the last size."""
        kind = dtypes.find(dtype)
        last = self.shape[-1] * self._type.size if self.shape else self._type.size
        if last % kind.size:
            raise ValueError("%r: rows of %d bytes are no whole number of %s" %
                             (self, last, kind.name))
        return self._view(0, self.shape[:-1] + (last // kind.size,), kind)

    def __getitem__(self, index):
        """Rows: t[i] and t[a:b] of the first dimension."""
        if not self.shape:
            raise IndexError("a tensor without dimensions has no rows")
        row = self.nbytes // self.shape[0]
        if isinstance(index, slice):
            first, last, step = index.indices(self.shape[0])
            if step != 1 or last <= first:
                raise IndexError("rows %r of %r: a view takes rows one after another, at least one"
                                 % (index, self))
            return self._view(first * row, (last - first,) + self.shape[1:])
        i = whole(index)
        if i is None or not -self.shape[0] <= i < self.shape[0]:
            raise IndexError("row %r of %r: a view takes t[i] or t[a:b] of the first dimension"
                             % (index, self))
        return self._view(i % self.shape[0] * row, self.shape[1:])


def part_of(whole, t):
    """The part of an output on a device that a returned tensor is; a copy if its elements do not
    lie one after another."""
    if t.dyn:
        raise SomaError("the kernel returns a view of %s whose place is known when it runs: on a "
                          "device its place must be fixed" % t.storage.name)
    lies = Lies(whole, t.shape, t.steps, t.off, t.dtype)
    if lies.is_dense():
        return whole._view(t.off * t.dtype.size, tuple(t.shape), t.dtype)
    return arithmetic.copied(lies).array


def placed(x):
    """A DeviceArray of an argument: of a tensor of torch on a device, the same memory where it lies
    dense; anything else as it is."""
    torch = sys.modules.get("soma.torch")
    return torch.array_of(x) if torch and torch.is_here(x) else x


def common(values):
    """The device on which all of these arrays are, None if one is elsewhere or there are none."""
    found = {v.device for v in values if isinstance(v, DeviceArray)}
    on_host = any(not isinstance(v, DeviceArray) for v in values)
    if len(found) > 1:
        raise SomaError("arguments are on %s: a kernel works on one device" %
                        " and ".join(sorted(d.name for d in found)))
    return None if on_host or not found else found.pop()
