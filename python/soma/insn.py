"""Instructions: opcodes, codes of operators, and one function for each that others build on.

Fields are written in the order of the instruction's form (`soma-as --explain NAME`, isa/manual.md);
a test holds FORMS against the library. Operands are Tensors, engines numbers of soma_engine or -1.
"""
import math
import struct
import sys

import numpy as np

from . import kernel as K
from . import record
from .checked import between, whole, word
from .dtypes import find
from .errors import KernelError
from .record import recorders
from .register import Register, RegisterValue
from .tensor import SBUF, Storage, Tensor, same_view, shares  # noqa: F401 - for record.py
from .views import in_same_order

ANY, TENSOR, VECTOR, SCALAR, GPSIMD, SYNC = -1, 0, 1, 2, 3, 4

# The fields that this package writes, in their order.
FORMS = {
    "tensor_copy": "dst src round", "memset": "dst value filler",
    "tensor_tensor": "dst src0 src1 op round",
    "tensor_scalar": "dst src op0 imm0 op1 imm1 reverse0 reverse1 round",
    "scalar_tensor_tensor": "dst src op0 imm0 op1 src1 reverse0 reverse1",
    "tensor_reduce": "dst src op axes negate", "reciprocal": "dst src",
    "copy_predicated": "dst src imm pred reverse_pred",
    "select_reduce": "dst on_true on_false pred reverse_pred reduce reduce_op",
    "range_select": "dst on_true bound0 bound1 op0 op1 start on_false reduce reduce_op",
    "tensor_tensor_scan": "dst src0 src1 init op0 op1 reverse0 reverse1",
    "tensor_scalar_cumulative": "dst src op0 imm0 op1 imm1 reverse0 reduce",
    "tensor_scalar_reduce": "dst src op0 imm0 op1 imm1 reverse0 reduce",
    "dve_read_acc": "dst negate", "bn_stats": "dst src", "bn_aggr": "dst src", "max8": "dst src",
    "match_value_load": "src", "find_index8": "dst src", "match_replace8": "dst src imm dst_idx",
    "transpose32": "dst src", "load_mask_register": "mask", "shuffle": "dst src",
    "dropout": "dst src prob threshold", "rng": "dst", "set_rng_seed": "src",
    "rand2": "dst min max", "rand_set_state": "src", "rand_get_state": "dst",
    "exponential": "dst src max reduce init", "quantize_mx": "dst scale src",
    "iota": "dst pattern offset multiplier",
    "affine_select": "dst src fill pattern offset multiplier cmp",
    "local_gather": "dst src index elems_per_index valid_indices", "n_gather": "dst src index",
    "partition_reduce": "dst src op", "sequence_bounds": "dst src",
    "nonzero_with_count": "dst src index_offset padding", "topk": "val_dst idx_dst src n",
    "ldweights": "src transpose onezero perf tile_row tile_col tile_rows tile_cols",
    "matmul": "dst src acc psum_zero transpose onezero perf tile_row tile_col tile_rows tile_cols",
    "ldweights_mx": "src scale tile_row tile_rows",
    "matmul_mx": "dst src scale acc psum_zero tile_row tile_rows",
    "activate": "dst src fn scale bias reduce round", "act_read_acc": "dst negate",
    "activate2": "dst src fn op0 imm0 op1 imm1 relu_param reverse0 reverse1 reduce reduce_op",
    "dma_copy": "dst src queue oob prio op", "dma_transpose": "dst src queue oob prio",
    "dma_compute": "dst srcs op scales queue oob prio",
    "mov": "rd a", "add": "rd ra b", "mul": "rd ra b", "min": "rd ra b",
    "or": "rd ra b", "shr": "rd ra b", "tensor_load": "rd src",
    "tensor_store": "dst ra", "device_print": "prefix src to",
    "device_print_value": "prefix value to",
    "sendrecv": "dst src queue pipe prio", "sendrecv_gpsimd": "dst src pipe",
    "core_barrier": "semaphore data",
    "all_reduce": "dsts srcs group op dim stream channel prio both",
    "all_gather": "dsts srcs group op dim stream channel prio both",
    "reduce_scatter": "dsts srcs group op dim stream channel prio both",
    "all_to_all": "dsts srcs group op dim stream channel prio both",
    "all_gather_v":
        "dsts srcs group metadata recv_counts_known has_rdispls stream channel prio both",
    "all_to_all_v":
        "dsts srcs group metadata recv_counts_known has_rdispls stream channel prio both",
    "collective_permute": "dsts srcs pairs stream channel prio both",
    "collective_permute_implicit": "dsts srcs group channels stream prio both",
    "collective_permute_implicit_reduce":
        "dsts srcs0 srcs1 group op channels stream prio both",
    "rank_id": "rd", "current_processing_rank_id": "rd iteration group channel",
}
OP = {name: K.opcode(name) for name in FORMS}
ALU = K.codes("tensor_tensor", "op")
ACT = K.codes("activate", "fn")
ACC = K.codes("matmul", "acc")
CMD = K.codes("activate", "reduce")
OOB = K.codes("dma_copy", "oob")
PERF = K.codes("matmul", "perf")

_bits = struct.Struct("f")
_word = struct.Struct("i")
_numbers = {}  # words of numbers
NONE = K.pack((0,))  # of a number that is left out
_TILE = K.pack((3,))  # before a tile of numbers


def float_bits(x):
    """The bits of x as a float32, as a signed word."""
    try:
        return _word.unpack(_bits.pack(x))[0]
    # What is too large is infinity, as NumPy rounds it.
    except (struct.error, OverflowError):
        return _word.unpack(_bits.pack(float(np.float32(x))))[0]


def said(x):
    """A value as messages show it: short."""
    if isinstance(x, np.ndarray):
        return "a NumPy array of shape %s" % list(x.shape)
    text = repr(x)
    return text if len(text) <= 60 else "%s ..." % text[:57]


def number(x, what="an operand"):
    """Words of a NUM field, packed: None, a number, a register, or a [P, 1] tile."""
    if x is None:
        return NONE
    # Kernels use the same few numbers many times.
    plain = x.__class__ is float or x.__class__ is int
    if plain and x in _numbers:
        return _numbers[x]
    if x.__class__ is Tensor:
        return _TILE + x.words()
    if isinstance(x, RegisterValue):
        # A register of another type holds a whole number.
        return K.pack((2, x.number() if x.is_float() else _float_register(x)))
    try:
        # float() would take these for what they may hold.
        if isinstance(x, (str, bytes, np.ma.MaskedArray)):
            raise TypeError
        words = K.pack((1, float_bits(float(x))))
        if plain and x:  # 0.0 and -0.0 are equal
            _numbers[x] = words
        return words
    except (TypeError, ValueError, OverflowError):
        raise KernelError("%s is %s: a number, a register or a tile of one element in each "
                          "partition is needed" % (what, said(x))) from None


def integer(x, what="an offset"):
    """Words of an INT field: a whole number or a register."""
    if isinstance(x, RegisterValue):
        return (1, plain_register(x))
    return (0, word(x, what))


def _float_register(x):
    """Number of a register with a whole number x as a float32: it takes a way through SBUF, where
    types are converted."""
    first = next(iter(x.terms), None)
    kind = find(first.kind if len(x.terms) == 1 else "int32")
    value = plain_register(x)

    def make():
        # Once for each value while it lasts: `once` keeps the register.
        rec, whole_number, real = record.active(), tile(1, 1, kind), tile(1, 1, find("float32"))
        rec.emit(OP["tensor_store"], ANY, (whole_number.words(), (value,)))
        tensor_copy(real, whole_number)
        register = rec.new_register()
        rec.emit(OP["tensor_load"], ANY, ((register,), real.words()))
        return register
    return record.active().once(("float", value), x, make)


def loaded(element):
    """A register with what a 1 x 1 tile holds."""
    register = Register()
    record.active().emit(OP["tensor_load"], ANY, ((register.number(),), element.words()))
    # Its type tells what its bits are where it is used.
    register.writes("float32" if element.dtype.float else "int32")
    return register


def address_register(terms):
    """(number of a register, stride) of a place that the sum over [(register, stride)] moves."""
    by = {}
    # A register that is in the sum twice counts with both strides.
    for register, stride in terms:
        by[register] = by.get(register, 0) + stride
    # An operand has one register and one stride: the sum is counted in the greatest common one.
    step = math.gcd(*by.values())
    x = RegisterValue({r: k // step for r, k in by.items() if k}) if step else RegisterValue({})
    key = "sum", tuple((r.number(), k) for r, k in x.terms.items())
    return record.active().once(key, x, lambda: plain_register(x)), max(step, 1)


def plain_register(x):
    """Number of a register that holds a whole number x; a computed value is put into a new one."""
    rec = record.active()
    x.check()
    terms = list(x.terms.items())
    if len(terms) == 1 and terms[0][1] == 1 and x.const == 0:
        # A plain register needs no instruction.
        return terms[0][0].number()
    total = rec.new_register()
    rec.emit(OP["mov"], ANY, ((total, 0, word(x.const, "a number that is added to a register")),))
    for register, times in terms:
        part = register.number()
        if times != 1:
            # In a register of its own: the other one may be used again.
            scaled = rec.new_register()
            times = word(times, "a number that a register is multiplied by")
            rec.emit(OP["mul"], ANY, ((scaled, part, 0, times),))
            part = scaled
        rec.emit(OP["add"], ANY, ((total, total, 1, part),))
    return total


# ---- The instructions that others build on ----

_COPY, _MEMSET, _DMA, _TT, _TS = (OP[n] for n in (
    "tensor_copy", "memset", "dma_copy", "tensor_tensor", "tensor_scalar"))


def tensor_copy(dst, src, engine=ANY):
    recorders[0].emit(_COPY, engine, (dst, src, NONE))


def fill_bits(value, dtype):
    """The immediate of a memset: for integer types the integer, else float32 bits."""
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if dtype.integer or dtype.kind == "b":
        if whole(value) is None:
            raise KernelError("memset of %s with %s: an integer type takes a whole number"
                              % (dtype, said(value)))
        # Signed types have one bit less.
        high = (1 << dtype.size * 8 - (dtype.kind == "i")) - 1
        low = -high - 1 if dtype.kind == "i" else 0
        return between(value, low, high, "the value of a memset of %s" % dtype)
    try:
        return float_bits(float(value))
    except (TypeError, ValueError, OverflowError):
        raise KernelError("memset of %s with %s: expected a number"
                          % (dtype, said(value))) from None


def memset(dst, value, engine=ANY, filler=0):
    recorders[0].emit(_MEMSET, engine,
                      (dst.words(), (1, fill_bits(value, dst.dtype), filler)))


_USUAL = K.pack((-1, 0, 0, 0))  # queue, oob, prio, op of a dma_copy


def dma_copy(dst, src, flags=0, oob=0, prio=0, op=0, queue=-1):
    s = dst.storage
    if not s.memory:
        s.written = True
    if op or oob or prio or queue != -1:
        how = queue, oob, prio, op
    else:
        how = _USUAL
    if (op or dst.dyn or src.dyn) and not flags and queue == -1 and (
            op or dst.has("gather") or src.has("gather")):
        flags = K.SWDGE
    recorders[0].emit(_DMA, ANY, (dst, src, how), flags)


def tensor_tensor(dst, a, b, op, engine=ANY):
    record.active().emit(_TT, engine, (dst, a, b, (op, 0)))


def tensor_scalar(dst, src, op, imm, reverse=0, engine=ANY):
    record.active().emit(_TS, engine, (dst.words(), src.words(), op, number(imm),
                                       (0, 0, reverse, 0, 0)))


def tile(parts, free, dtype, memory=SBUF, name=""):
    """A new tile of (parts, free) elements."""
    rec = record.active()
    s = Storage(memory, dtype, (parts, free), name, None, rec.where())
    return Tensor(rec.number(s), dtype, (parts, free), (1, 1))


def constant(array, dtype=None):
    """An array as a constant in HBM. Equal arrays share one constant."""
    rec = record.active()
    data = np.ascontiguousarray(array)
    dtype = dtype or find(data.dtype)
    key = (dtype.name, data.shape, data.tobytes())
    if key not in rec.constants:
        s = Storage(0, dtype, data.shape or (1,), "const")
        s.data, s.role = data, 3
        rec.constants[key] = s  # without a number: the next round of a loop does not make it
    from .views import dense
    s = rec.constants[key]
    return Tensor(s, dtype, s.shape, dense(s.shape))


def in_sbuf(t):
    """t, or a copy of it in SBUF if it is in PSUM."""
    if t.memory == SBUF:
        return t
    copy = tile(t.shape[0], t.free_size, t.dtype)
    tensor_copy(copy, t)
    return copy.reshape(t.shape)


def starts_well(view):
    """Whether an engine may write these partitions."""
    n = view.shape[0]
    return view.part % (128 if n > 64 else 64 if n > 32 else 32) == 0


def fitted(value, shape):
    """A value for memory of another shape: repeated, or as it is if the same elements lie in the
    same order."""
    if value.size != math.prod(shape):
        return value.broadcast_steps(shape)
    if not in_same_order(value.shape, shape):
        raise KernelError("a value of shape %s for %s: it has as many elements, but in another "
                          "order; nl.transpose or a reshape says which is meant"
                          % (list(value.shape), list(shape)))
    return value


def assign(view, value):
    """`view[...] = value` by a copy or a fill. A value with one element per partition, or with one
    partition, is repeated."""
    if hasattr(value, "assign_to"):
        value.assign_to(view)
        return
    if not isinstance(value, Tensor):
        # No engine fills HBM: a tile of up to 128 rows is copied there.
        if view.memory == 0:
            source = tile(min(128, view.shape[0]), view.size // view.shape[0], view.dtype)
            memset(source, value)
            for at in range(0, view.shape[0], 128):
                rows = min(128, view.shape[0] - at)
                dma_copy(view.like((rows,) + view.shape[1:], view.steps,
                                   view.off + at * view.steps[0]), source[0:rows])
        elif starts_well(view):
            memset(view, value)
        else:  # by DMA, which starts anywhere
            source = tile(view.shape[0], view.free_size, view.dtype)
            memset(source, value)
            dma_copy(view, source)
        return
    if value.shape != view.shape:
        value = fitted(value, view.shape)
    if view.memory == 0 or value.memory == 0:
        dma_copy(view, value if view.memory else in_sbuf(value) if value.memory else value)
    # Engines write as many partitions as they read, and begin where the machine allows.
    elif view.shape[0] != value.shape[0] or not starts_well(view) or not starts_well(value):
        relaid(view, value)
    else:
        tensor_copy(view, value)


def reachable(t):
    """t, or a copy of it if no engine reaches its partitions."""
    if t.__class__ is not Tensor or not t.part or starts_well(t):
        return t
    copy = tile(t.shape[0], t.free_size, t.dtype)
    dma_copy(copy, in_sbuf(t))
    return copy.reshape(t.shape)


def relaid(view, value):
    """view = value, by DMA, for tiles with equally many elements in other partitions."""
    into = view if view.memory == SBUF else tile(view.shape[0], view.free_size, view.dtype)
    dma_copy(into, in_sbuf(value))
    if into is not view:
        tensor_copy(view, into)


record.insn = sys.modules[__name__]
