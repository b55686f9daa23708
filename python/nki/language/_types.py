"""Types, memories and sizes of nki.language."""
from enum import Enum

import numpy as np

from soma import dtypes
from soma.dtypes import DType  # noqa: F401 - a name of the API
from soma.tensor import HBM, PSUM, SBUF

from ..isa._common import MEMORY_REGION

for _name, _type in dtypes.TYPES.items():
    globals()["bool_" if _name == "bool" else _name] = _type
TYPE_NAMES = ["bool_" if n == "bool" else n for n in dtypes.TYPES]


class MemoryRegion(Enum):
    """Memories of a kernel."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def view(self, dtype, shape, name="", address=None):
        """A new tensor in this memory: `sbuf.view(dtype=nl.float32, shape=(128, 64))`."""
        from ._create import ndarray
        return ndarray(shape, dtype, self, name, address)


sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm
hbm = private_hbm
MEMORY_REGION.update({HBM: hbm, SBUF: sbuf, PSUM: psum})
_MEMORY = {sbuf: SBUF, psum: PSUM, private_hbm: HBM, shared_hbm: HBM}
_NAMES = {"sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": hbm, "shared_hbm": shared_hbm,
          "sb": sbuf}


def region(buffer):
    """A MemoryRegion of a MemoryRegion or its name."""
    if buffer.__class__ is MemoryRegion:
        return buffer
    found = _NAMES.get(getattr(buffer, "name", buffer))
    if found is None:
        raise TypeError("buffer=%r: there are sbuf, psum, private_hbm (hbm) and "
                        "shared_hbm" % (buffer,))
    return found


def memory_of(buffer):
    """Number of a region's memory."""
    return _MEMORY[region(buffer)]


def is_hbm(buffer):
    """Whether a memory is in HBM."""
    return memory_of(buffer) == HBM


def is_on_chip(buffer):
    """Whether a memory is SBUF or PSUM."""
    return memory_of(buffer) != HBM


def is_psum(buffer):
    """Whether a memory is PSUM."""
    return memory_of(buffer) == PSUM


def is_sbuf(buffer):
    """Whether a memory is SBUF."""
    return memory_of(buffer) == SBUF


class _Limits:
    """np.finfo of a type, as nl.fp32 has it."""

    def __init__(self, low, high):
        self.min, self.max = low, high


fp32 = _Limits(float(np.finfo(np.float32).min), float(np.finfo(np.float32).max))


def finfo(dtype):
    """Limits of a float type: min, max, eps, tiny, bits."""
    t = dtypes.find(dtype)
    if t.numpy.kind == "f":
        return np.finfo(t.numpy)
    if not t.float:
        raise TypeError("finfo(%s): it takes float types" % t)
    from soma.arrays import bits_to_float
    values = bits_to_float(np.arange(1 << (8 * t.size), dtype="u%d" % t.size), t).astype(np.float64)
    values = values[np.isfinite(values)]
    found = _Limits(float(values.min()), float(values.max()))
    found.eps = float(values[values > 1].min() - 1)
    found.tiny = found.smallest_subnormal = float(values[values > 0].min())
    found.bits, found.dtype = 8 * t.size, t
    return found


class _TileSize:
    """Sizes of the target: that of the kernel being built, else of the environment."""

    pmax, psum_fmax, psum_bank_fmax = 128, 512, 512
    psum_bank_fmax_bytes, gemm_stationary_fmax, gemm_moving_fmax = 2048, 128, 512
    bn_stats_fmax, psum_min_align, sbuf_min_align = 512, 4, 1

    @property
    def psum_num_banks(self):
        from .._target import row
        return row()["psum_bytes"] // self.psum_bank_fmax_bytes

    @property
    def sbuf_fmax_bytes(self):
        from .._target import row
        return row()["sbuf_bytes"]

    total_available_sbuf_size = sbuf_fmax_bytes

    @property
    def sbuf_fmax(self):
        return self.sbuf_fmax_bytes // 4

    @property
    def sbuf_size_bytes(self):
        return self.sbuf_fmax_bytes * 128


tile_size = _TileSize()
