"""nki.language (nl): memory, tiles and what is computed with them. See the public reference of
nki.language; python/README.md has every name and whether it works."""
from soma.index import DynSlice, arange, ds, dslice, mgrid
from soma.tensor import Tensor as NkiTensor

from . import _create, _types
from ..isa._common import NKIObject
from ._create import (empty_like, full, ndarray, ones, par_dim, rand, random_seed, shared_constant,
                      shared_identity_matrix, zeros, zeros_like)
from ._loops import (affine_range, dynamic_range, fori_loop, nc, no_reorder, num_programs,
                     program_id, program_ndim, sequential_range, spmd_dim, static_range, while_loop)
from ._math import (abs, abs_max, abs_min, add, arctan, average, bitwise_and, bitwise_or,
                    bitwise_xor,
                    bypass, ceil, cos, divide, dropout, equal, erf, erf_dx, exp, floor, gelu,
                    gelu_apprx_sigmoid, gelu_apprx_sigmoid_dx, gelu_apprx_tanh, gelu_dx, greater,
                    greater_equal, invert, left_shift, less, less_equal, log, logical_and,
                    logical_not, logical_or, logical_xor, maximum, minimum, mish, multiply,
                    negative, not_equal, power, prelu, reciprocal, relu, right_shift, rsqrt,
                    sigmoid, sign, silu, silu_dx, sin, softplus, sqrt, square, subtract, tan, tanh,
                    trunc, where)
from ._memory import (all_reduce, atomic_rmw, broadcast_to, copy, device_print, expand_dims,
                      gather_flattened, load, load_transpose2d, loop_reduce, matmul, static_cast,
                      store, transpose)
from ._reduce import all, max, mean, min, prod, rms_norm, softmax, sum, var
from ._remainder import fmod, mod
from ._types import (MemoryRegion, finfo, fp32, hbm, is_hbm, is_on_chip, is_psum, is_sbuf,
                     private_hbm, psum, sbuf, shared_hbm, tile_size)
from . import _operators  # noqa: F401 - gives tiles their operators

from . import _older, constants  # noqa: F401
for _name in _older.PARAMETERS:
    globals()[_name] = _older.taken(globals()[_name])
ndarray = _create.in_c(ndarray)
DType = _types.DType
for _name in _types.TYPE_NAMES:
    globals()[_name] = getattr(_types, _name)
range = affine_range
tensor = NkiTensor
bool = _types.bool_
__all__ = [n for n in dir() if not n.startswith("_")]
