"""Enumerations of nki.isa."""
from enum import Enum, IntEnum

from soma import insn


class engine(IntEnum):
    """Engines of a NeuronCore."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


ENGINE = {engine.unknown: -1, engine.tensor: insn.TENSOR, engine.scalar: insn.SCALAR,
          engine.gpsimd: insn.GPSIMD, engine.vector: insn.VECTOR, engine.sync: insn.SYNC, None: -1}


class reduce_cmd(IntEnum):
    """What an instruction does with its engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(IntEnum):
    """Who makes the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(IntEnum):
    """What an index out of bounds does."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Performance modes of the tensor engine."""

    none = "none"
    double_row = "double_row"
    double_row_gen3 = "double_row"
    double_column = "double_column"
    double_pixel = "double_pixel"


class nc_version(IntEnum):
    """Generations of NeuronCores."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(IntEnum):
    """Who moves the data of sendrecv."""

    dma = 1
    gpsimd_dma = 2


CMD = {c: insn.CMD.get(c.name, 0) for c in reduce_cmd}
CMD[None] = 0
