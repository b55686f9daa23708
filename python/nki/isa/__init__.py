"""nki.isa: the instructions. With `dst` a call writes it; without, as in the older API, it returns
a tile. Each is described in the public reference of nki.isa; what is refused says so."""
import os

from soma.register import Register as VirtualRegister

from . import constants
from ._common import NKIObject, NkiInstruction
from ._elementwise import (activate2, activation, activation_reduce, exponential, quantize_mx,
                           reciprocal, scalar_tensor_tensor, tensor_copy_predicated, tensor_scalar,
                           tensor_scalar_cumulative, tensor_scalar_reduce, tensor_tensor,
                           tensor_tensor_scan)
from ._gpsimd import (affine_select, dropout, iota, local_gather, nc_n_gather, nonzero_with_count,
                      rand2, rand_get_state, rand_set_state, rng, sequence_bounds, set_rng_seed,
                      topk)
from ._matmul import nc_matmul, nc_matmul_mx, nc_transpose
from ._move import (core_barrier, dma_compute, dma_copy, dma_transpose, memset, nc_stream_shuffle,
                    register_alloc, register_load, register_move, register_store, sendrecv,
                    tensor_copy, tensor_copy_dynamic_dst, tensor_copy_dynamic_src)
from ._reduce import (bn_aggr, bn_stats, max8, nc_find_index8, nc_match_replace8, range_select,
                      select_reduce, tensor_partition_reduce, tensor_reduce)
from .constants import (dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode,
                        reduce_cmd)

tensor_engine, vector_engine, scalar_engine = engine.tensor, engine.vector, engine.scalar
gpsimd_engine, unknown_engine, sync_engine = engine.gpsimd, engine.unknown, engine.sync


class NkiValidationError(Exception):
    """A rule of the hardware that a call breaks."""


def get_nc_version():
    """The generation of the target: of the kernel that is being built, else of the environment."""
    from .._target import generation
    return nc_version(generation())


def get_nc_sub_version():
    """The revision of the target within its generation: the first."""
    return int(os.environ.get("NKI_NC_SUB_VERSION", "0"))


__all__ = [name for name in dir() if not name.startswith("_") and name not in
           ("os", "constants")]
