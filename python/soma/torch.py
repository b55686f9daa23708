"""torch's device privateuseone over Soma's HBM, also by its name neuron:

    import torch, soma
    soma.torch.enable()
    x = torch.rand([128, 512], device="neuron:0")
    y = kernel(x)       # a kernel of NKI; y is on the device too
    print((y + 1).cpu())

Elementwise operations, sums and products of floats run there as kernels; others are done on the
CPU, and counted. torch_device.cpp is compiled when the device is first needed.
"""
import atexit
import ctypes as C
import hashlib
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from . import devices, dtypes
from .errors import SomaError
from .layout import Lies
from .record import add_own

add_own(os.path.dirname(torch.__file__))  # between a script's line and the kernel that it calls

KIND = "privateuseone"
_NAME = re.compile(r"neuron(:\d+)?")
_XLA = re.compile(r"xla(:\d+)?")  # the CPU, where torch_xla is Soma's stand-in
_HERE = os.path.dirname(os.path.abspath(__file__))
_BYTE = dtypes.TYPES["uint8"]
_APART = 1 << 20  # what the places of storages are multiples of
fallbacks = {}  # how often each operation was done on the CPU, by name
_memory = {}  # the bytes of a storage, as a DeviceArray, by place
_state = {"library": None, "mode": None, "place": 1 << 56, "adopted": None,
          "raised": None, "xla": False}


# ---- The extension ----

def _compiled():
    """The path of the extension for this torch, compiled if it is not there yet."""
    source = os.path.join(_HERE, "torch_device.cpp")
    with open(source, "rb") as f:
        mark = hashlib.sha256(f.read() + torch.__version__.encode() + sys.version.encode())
    folder = os.environ.get("SOMA_TORCH_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "soma")
    path = os.path.join(folder, "torch-%s.so" % mark.hexdigest()[:16])
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        _compile(source, path)
    return path


def _compile(source, path):
    home = os.path.dirname(torch.__file__)
    standard = "c++14" if int(torch.__version__.split(".")[0]) < 2 else "c++17"
    compiler = os.environ.get("CXX", "g++").split()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as scratch:
        made = os.path.join(scratch, "made.so")
        words = compiler + ["-std=" + standard, "-O1", "-shared", "-fPIC", "-o", made, source,
                            "-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI,
                            "-I" + os.path.join(home, "include")]
        words += [_library(name, os.path.join(home, "lib")) for name in ("c10", "torch_cpu")]
        try:
            done = subprocess.run(words, capture_output=True, text=True)
        except OSError as error:
            raise SomaError("soma.torch compiles its extension with %s: %s" % (
                compiler[0], error.strerror)) from None
        if done.returncode:
            lines = [n for n in done.stderr.splitlines() if "error" in n] or [done.stderr.strip()]
            raise SomaError("soma.torch cannot compile its extension, which needs a C++ compiler "
                            "and the headers of torch (Debian: g++ and libtorch-dev): %s"
                            % lines[0])
        os.replace(made, path)


def _library(name, folder):
    """The file of a library that torch has loaded: beside it, or, on Debian, of the system."""
    beside = os.path.join(folder, "lib%s.so" % name)
    if os.path.exists(beside):
        return beside
    with open("/proc/self/maps") as f:
        paths = {line.split(None, 5)[-1].strip() for line in f if "/lib%s.so" % name in line}
    return paths.pop() if paths else "-l" + name


@C.CFUNCTYPE(None, C.c_int, C.c_size_t, C.POINTER(C.c_uint64), C.c_void_p, C.c_size_t)
def _take(number, n, found, why, size):
    place = 0
    try:
        array, _state["adopted"] = _state["adopted"], None
        if array is None:
            array = devices.device(number).zeros((n,), _BYTE)
        place = _state["place"]
        _state["place"] += (n // _APART + 1) * _APART  # places in two storages are never equal
        _memory[place] = array
        found[0] = place
    except BaseException as error:
        found[0] = 0
        _memory.pop(place, None)
        if not isinstance(error, Exception):  # Ctrl-C: the mode raises it instead of torch's error
            _state["raised"] = error
        text = (str(error) or type(error).__name__).encode()[:size - 1]
        C.memmove(why, text + b"\0", len(text) + 1)


@C.CFUNCTYPE(None, C.c_uint64, C.POINTER(C.c_int))
def _give(place, done):
    _memory.pop(place, None)
    done[0] = 1


@C.CFUNCTYPE(None, C.c_char_p)
def _count(name):
    count(name.decode())


def count(operation):
    """Notes that an operation is done on the CPU."""
    fallbacks[operation] = fallbacks.get(operation, 0) + 1


def _load():
    """Registers the device with torch, once."""
    if _state["library"] is None:
        path = _compiled()
        torch.ops.load_library(path)
        library = C.CDLL(path)
        library.soma_torch_begin(_take, _give, _count)
        atexit.register(library.soma_torch_begin, None, None, None)
        _state["library"] = library
        from . import torch_ops
        torch_ops.register()
        if hasattr(torch.utils, "rename_privateuse1_backend"):
            torch.utils.rename_privateuse1_backend("neuron")


# ---- Names of the device ----

class _Names(TorchFunctionMode):
    """Lets functions of torch take "neuron:0" where torch cannot rename a device, and shows tensors
    of the device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for value in list(args) + list(kwargs.values()):
            kind = value.__class__
            here = kind is str and (_NAME.fullmatch(value) or value.startswith(KIND)) or \
                kind is torch.device and value.type == KIND
            if here or _state["xla"] and _is_xla(value):
                if here:
                    _load()
                args = tuple(map(_translated, args))
                kwargs = {n: _translated(v) for n, v in kwargs.items()}
                break
        if function is torch.Tensor.__repr__ and is_here(args[0]):
            return _shown(args[0])
        if function is torch.Tensor.__deepcopy__ and is_here(args[0]):
            return _copied(*args)
        try:
            return function(*args, **kwargs)
        except RuntimeError:
            raised, _state["raised"] = _state["raised"], None
            if raised is None:
                raise
        raise raised


def _is_xla(x):
    return x.__class__ is str and _XLA.fullmatch(x) or \
        x.__class__ is torch.device and x.type == "xla"


def _translated(x):
    if _state["xla"] and _is_xla(x):
        return "cpu"
    return x.replace("neuron", KIND, 1) if x.__class__ is str and _NAME.fullmatch(x) else x


def _shown(t):
    text = repr(t.detach().cpu())
    return "%s, device='neuron:%d'%s)" % (text[:-1], t.device.index,
                                          ", requires_grad=True" if t.requires_grad else "")


def _copied(t, memo):
    if id(t) not in memo:
        memo[id(t)] = t.detach().clone().requires_grad_(t.requires_grad)
    return memo[id(t)]


def enable(lazy=False):
    """Makes the device known to torch in this thread: "neuron:0" or "privateuseone:0". lazy: the
    extension is compiled and loaded when a device is first named."""
    if not lazy:
        _load()
    if _state["mode"] is None:
        _state["mode"] = _Names()
        _state["mode"].__enter__()


def xla_is_cpu():
    """Lets functions of torch take "xla", in this thread, for the CPU."""
    _state["xla"] = True
    enable(lazy=True)


# ---- Tensors of torch and of Soma ----

def is_here(x):
    return isinstance(x, torch.Tensor) and x.device.type in (KIND, "neuron")


def memory(t):
    """The bytes of a tensor's storage as a DeviceArray; None if it has none."""
    return _memory.get(t.data_ptr() - t.storage_offset() * t.element_size())


def lies(t, dtype=None):
    """How a tensor of the device lies; dtype: another type of the same size. TypeError for types
    that the machine has not."""
    return Lies(memory(t), t.shape, t.stride(), t.storage_offset(),
                dtype or dtypes.find(t.dtype))


def array_of(t):
    """A DeviceArray over a tensor of the device that lies dense; a dense copy of another."""
    dtype, dense = dtypes.find(t.dtype), t.detach().contiguous()
    if not t.numel():
        raise TypeError("a tensor without elements")
    array = memory(dense)._view(dense.storage_offset() * dtype.size, tuple(t.shape), dtype)
    array.copy_of = None if dense.data_ptr() == t.data_ptr() else t
    return array


def write(t, array):
    """Writes a tensor that does not lie dense with the copy that array_of() made of it."""
    t.detach().copy_(tensor_of(array))


def tensor_of(array):
    """A tensor of torch over the memory of a DeviceArray."""
    _load()
    number = int(array.device.name.split(":")[1])
    _state["adopted"] = array._view(0, (array.nbytes,), _BYTE)
    raw = torch.empty(array.nbytes, dtype=torch.uint8, device="%s:%d" % (KIND, number))
    return raw.view(getattr(torch, array._type.name)).view(array.shape)


def host_bytes(t):
    """The elements of a tensor on the CPU in order, as NumPy's bytes."""
    return t.contiguous().view(-1).view(torch.uint8).numpy() if t.numel() else \
        np.empty(0, np.uint8)
