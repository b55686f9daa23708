"""Moving tiles: load, store, copies, transposes, matmul, broadcasts, gathers."""
import numpy as np

from soma import arrays, insn, record
from soma.dtypes import find, float32
from soma.errors import KernelError, NotBuilt
from soma.index import Index
from soma.lib import ROLE_INPUT
from soma.masks import effective, mask_ranges, pieces
from soma.native import _soma
from soma.register import RegisterValue
from soma.tensor import MEMORY, PSUM, SBUF, Tensor
from soma.under import as_asked

from ..isa._common import (DMA, EACH, PIECES, WHOLE, apart, mask_tile, masked, need, new_tile,
                           one_record, returned, whole_mask)
from ..isa._gpsimd import emit_n_gather
from ..isa._matmul import (Part, constant_tile, emit_matmul, of_parts, old_transpose,
                           returned_transpose, summed, turn)

_MASK, _SHUFFLE = insn.OP["load_mask_register"], insn.OP["shuffle"]


def _tile_shape(shape):
    return (tuple(shape) + (1, 1))[:max(len(shape), 2)]


def _tell_chip(t, call, what, instead):
    rec = record.active()
    rec.told[rec.where()] = "nl.%s: %s is in %s: the vendor's compiler takes a tensor in HBM " \
        "there; %s" % (call, what, MEMORY[t.memory].strip(), instead)


@one_record("dma_copy", conditions=_soma.IN_HBM | _soma.STATIC)
def load(src, dtype=None, mask=None):
    """A tile in SBUF with the values of a tensor in HBM."""
    if src.__class__ is not Tensor:
        src, mask = apart(src, mask)
        src = need(src, "src", "nl.load")
    if mask is not None:
        src = as_asked(src)
    t = src.dtype if dtype is None else find(dtype)
    if src.storage.memory:
        _tell_chip(src, "load", "src", "nl.copy copies a tile")
        return returned(src.shape, t, lambda d, s: insn.tensor_copy(d, s), (src,), mask=mask,
                        call="nl.load", how=EACH)
    shape = src.shape if len(src.shape) > 1 else _tile_shape(src.shape)
    if shape[0] > 128:
        raise KernelError("nl.load of %s: the first dimension becomes partitions, of which there "
                          "are 128; %s" % (list(src.shape), "reshape((1, %d)) makes it one row" %
                                           shape[0] if len(src.shape) == 1 else
                                           "load up to 128 rows at a time"))
    emit = insn.dma_copy
    if mask is not None and not src.dyn:
        mask = effective(mask, shape)
    # Rows whose index is out of range are left as they are.
    elif mask is not None and src.has("gather"):
        def emit(d, s):
            insn.dma_copy(d, s, oob=1)
    return returned(shape, t, emit, (src,), SBUF, mask, "nl.load", how=DMA)


@one_record("dma_copy", conditions=_soma.STORES | _soma.STATIC, src="value")
def store(dst, value, mask=None):
    """Writes a tile or a number to a tensor in HBM."""
    if dst.__class__ is not Tensor:
        dst, mask = apart(dst, mask)
        dst = need(dst, "dst", "nl.store")
    if dst.storage.memory:
        _tell_chip(dst, "store", "dst", "x[...] = value writes a tile")
    value, mask = apart(value, mask)
    if mask is not None and value.__class__ is Tensor:
        dst, value = as_asked(dst), as_asked(value)
        mask = effective(mask, dst.shape, value.shape)
    # By far the most frequent: all of both.
    if mask is None and value.__class__ is Tensor and value.shape == dst.shape:
        insn.dma_copy(dst, value if value.storage.memory != PSUM else insn.in_sbuf(value))
        return None
    if value is None:
        raise KernelError("nl.store: value is None, not a tile or a number")
    if not isinstance(value, Tensor) and not hasattr(value, "as_tensor"):
        # A number fills the part that the mask leaves.
        return insn.assign(dst if mask is None else dst.cropped(mask_ranges(mask)[0]), value)
    value = need(value, "value", "nl.store")
    shape = _tile_shape(dst.shape)
    if value.shape != shape:
        value = insn.fitted(value, shape)

    def emit(d, v):
        insn.dma_copy(d, insn.in_sbuf(v) if v.memory == PSUM else v)
    # Many pieces: it is read, selected from, and written back.
    if mask is not None and _crosses(mask) and dst.storage.role == ROLE_INPUT and \
            pieces(*mask_ranges(mask)[:2], PIECES) is None:  # what stays has been written
        _store_selected(dst, value, mask)
        return None
    if mask is not None and value.shape[-len(dst.shape):] == dst.shape != value.shape:
        _store_aligned(dst, value, mask, emit)
        return None
    masked(mask, "nl.store", emit, how=DMA)(dst, value)
    return None


def _store_aligned(dst, value, mask, emit):
    """A value with leading axes of size 1 that dst has not."""
    ranges, _, empty = mask_ranges(mask)
    more = len(value.shape) - len(dst.shape)
    if not empty:
        emit(dst.cropped(ranges), value.cropped({a + more: r for a, r in ranges.items()}))


def _crosses(mask):
    return bool(mask_ranges(mask)[1])


def _store_selected(dst, value, mask):
    """A mask over several axes: the old values stay where it does not hold."""
    ranges, rest, empty = mask_ranges(mask)
    if empty:
        return
    d, v = dst.cropped(ranges), value.cropped(ranges)
    old = new_tile(d.shape, d.dtype)
    # The builder orders the two transfers by the bytes that they share.
    insn.dma_copy(old, d)
    keep = mask_tile(ranges, rest, d.shape, "nl.store")
    # The instruction's operands have one type.
    if v.dtype is not old.dtype or v.memory == PSUM:
        same = new_tile(d.shape, d.dtype)
        insn.tensor_copy(same, v)
        v = same
    from ..isa._elementwise import emit_predicated
    emit_predicated(old, v, keep)
    insn.dma_copy(d, old)


def atomic_rmw(dst, value, op, mask=None):
    """dst = dst op value in HBM; op is add."""
    from soma.ops import alu
    code = alu(op)
    dst, value = need(dst, "dst", "nl.atomic_rmw"), need(value, "value", "nl.atomic_rmw")
    # Adds in memory, by the DMA engines.
    masked(mask, "nl.atomic_rmw", lambda d, v: insn.dma_copy(d, v, op=code),
           how=DMA)(dst, value)


def copy(x, dtype=None, mask=None):
    """A copy of a tile in SBUF."""
    x = need(x, "x", "nl.copy") if mask is None else as_asked(need(x, "x", "nl.copy"))
    return returned(x.shape, x.dtype if dtype is None else find(dtype),
                    lambda d, s: insn.tensor_copy(d, s), (x,), mask=mask, call="nl.copy",
                    how=EACH)


def static_cast(x, dtype, mask=None):
    """A copy of a tile as another type; of an array of the host, which stays there."""
    if isinstance(x, (np.ndarray, np.generic)):
        return arrays.cast(x, dtype)
    return copy(x, dtype, mask)


def spread(x, parts):
    """A tile in which each of `parts` partitions holds the only one of x: by the tensor engine,
    else by shuffles within each 32."""
    rec = record.active()
    at = rec.at
    rec.at = rec.where()
    try:
        return _spread(rec, x, parts)
    finally:
        rec.at = at


def _spread(rec, x, parts):
    source = insn.in_sbuf(x)
    flat = source.like((1, source.free_size), (1, 1)) if source.is_contiguous() else source
    if rec.old_style and x.dtype.name in _BY_TENSOR and \
            (flat is not source or x.free_size <= _BANK):
        wide = _times_ones(rec, flat, parts, x.free_size, x.dtype)
        return wide.reshape((parts,) + tuple(x.shape[1:]))
    # Shuffles work within 32 partitions, from the first of them.
    if source.part % 32:
        moved = insn.tile(1, source.free_size, source.dtype)
        insn.dma_copy(moved, source)
        flat = moved
    wide = insn.tile(parts, x.free_size, x.dtype)
    # All from partition 0 of the 32.
    rec.emit(_MASK, insn.VECTOR, ((32,) + (0,) * 32,))
    for at in range(0, parts, 32):
        rec.emit(_SHUFFLE, insn.VECTOR, (wide[at:min(at + 32, parts)].words(), flat.words()))
    return wide.reshape((parts,) + tuple(x.shape[1:]))


_BY_TENSOR = "float32", "bfloat16", "float16"
_BANK = 512  # float32 in a partition of a bank of PSUM


def _times_ones(rec, row, parts, n, dtype):
    """The row times a column of ones: what NKI does for broadcast_to
    (trainium_inferentia2_arch.rst). Of float32 it stays in PSUM where it fits into a bank."""
    ones = constant_tile(rec, "ones_" + dtype.name, lambda: _ones(dtype))
    ones = ones[row.part:row.part + 1, 0:parts]
    single = (1, 0) if dtype is float32 else (0, 0)
    if n <= _BANK and dtype is float32:
        # A bank is what one matmul can write.
        sums = insn.tile(parts, n, float32, PSUM)
        emit_matmul(sums, ones, row, accumulate=False, onezero=single)
        return sums
    wide = insn.tile(parts, n, dtype)
    for at in range(0, n, _BANK):
        m = min(_BANK, n - at)
        sums = insn.tile(parts, m, float32, PSUM)
        emit_matmul(sums, ones, row[:, at:at + m] if m < n else row, accumulate=False,
                    onezero=single)
        insn.tensor_copy(wide[:, at:at + m] if m < n else wide, sums)
    return wide


def _ones(dtype):
    tile = new_tile((128, 128), dtype, name="ones_" + dtype.name)
    insn.memset(tile, 1.0)
    return tile


def aligned(x, shape):
    """x over a broadcast shape; partitions are copied, free dimensions are repeated by steps."""
    if x.shape == tuple(shape):
        return x
    # The first axes are new; the old partitions lie one after another in one.
    if len(x.shape) < len(shape):  # as NumPy's: its partitions become a free dimension
        lead = (1,) * (len(shape) - len(x.shape))
        wide = insn.tile(1, x.size, x.dtype).reshape(lead + tuple(x.shape))
        if x.shape[0] == 1:
            x = x.reshape((1,) + lead[1:] + tuple(x.shape))
        else:
            insn.relaid(wide, x)
            x = wide
    # Engines repeat free elements by a step of 0, not partitions.
    if x.shape[0] == 1 and shape[0] > 1:
        x = spread(x, shape[0])
    return x.broadcast_steps(shape)


def broadcast_to(x, shape=None, dtype=None, mask=None):
    """x repeated to a larger shape with as many dimensions; repeated partitions are copied."""
    if isinstance(x, Index):
        return x.broadcast_to(shape)
    x = need(x, "x", "nl.broadcast_to")
    whole_mask(mask, "nl.broadcast_to")
    shape = tuple(insn.between(n, 1, (1 << 62) - 1, "nl.broadcast_to: a size") for n in shape)
    t = x.dtype if dtype is None else find(dtype)
    if x.shape == shape and t is x.dtype:
        return x
    # Without a copy: a view that repeats.
    if t is x.dtype and (x.shape[0] == shape[0] or not x.storage.memory):
        return x.broadcast_steps(shape)
    if not x.storage.memory:
        raise KernelError("nl.broadcast_to: x is in HBM, where a transfer reads it as it is: "
                          "without dtype= (%s, x has %s)" % (t, x.dtype))

    def emit(d, s):
        insn.tensor_copy(d, aligned(s, shape))
    if x.shape[0] == shape[0] or t is not x.dtype:
        return returned(shape, t, emit, (x,), call="nl.broadcast_to")
    return aligned(x, shape)


def expand_dims(x, axis):
    """x with one more dimension of size 1."""
    return x.expand_dims(axis) if isinstance(x, Index) else \
        need(x, "x", "nl.expand_dims").expand_dim(axis)


def transpose(x, dtype=None, mask=None):
    """A tile with its partitions and its free dimensions, taken as one, swapped."""
    x = need(x, "x", "nl.transpose")
    t = x.dtype if dtype is None else find(dtype)
    return returned_transpose(x, t, old_transpose, SBUF, mask, "nl.transpose")


def matmul(x, y, transpose_x=False, mask=None):
    """x @ y, or x.T @ y: a tile in PSUM."""
    x, y, part = of_parts(x, y, transpose_x)
    x, y = need(x, "x", "nl.matmul"), need(y, "y", "nl.matmul")
    if transpose_x:
        mask, x, y, part = summed(mask, x, y, part, "nl.matmul")
    elif mask is not None and not mask_ranges(mask)[2]:
        whole_mask(mask, "nl.matmul")
        mask = None
    rows = x.free_size if transpose_x else x.shape[0]

    def emit(d, a, b, add=False):
        a, b = insn.in_sbuf(a), insn.in_sbuf(b)
        if not transpose_x:
            turned = insn.tile(a.free_size, a.shape[0],
                               float32 if record.active().gen == 2 else a.dtype, PSUM)
            turn(turned, a)
            a = insn.tile(turned.shape[0], turned.free_size, a.dtype)
            insn.tensor_copy(a, turned)
        emit_matmul(d, a, b, None if add else False)
    into = Part(emit, part)
    tile = returned((rows,) + tuple(y.shape[1:]), float32, into or emit, (x, y), PSUM, mask,
                    "nl.matmul", matmul=True)
    into.tile = tile
    return tile


def load_transpose2d(src, dtype=None, mask=None):
    """A tile with the transpose of a tensor in HBM, whose dimensions after the first are taken as
    one."""
    src = need(src, "src", "nl.load_transpose2d")
    if src.ndim < 2 or (src.ndim > 2 and src.shape[0] == 1):
        raise KernelError("nl.load_transpose2d of %s: two dimensions are needed: src[0], or a "
                          "reshape, says which" % list(src.shape))
    t = src.dtype if dtype is None else find(dtype)

    def emit(d, s):
        if record.active().gen > 2 and t is s.dtype and t.size in (2, 4) and mask is None and \
                s.ndim == 2:
            record.active().emit(insn.OP["dma_transpose"], -1,
                                 (d.exact_words(), s.exact_words(), (-1, 0, 0)))
        else:
            insn.dma_copy(d, s.permute(tuple(range(1, s.ndim)) + (0,)))
    return returned_transpose(src, t, emit, SBUF, mask, "nl.load_transpose2d")


def gather_flattened(data, indices, axis=0, dtype=None, mask=None):
    """data[p, indices[p, i]] over flattened rows."""
    data, indices = need(data, "data", "nl.gather_flattened"), need(indices, "indices",
                                                                   "nl.gather_flattened")
    if insn.whole(axis) != 0 or (dtype is not None and find(dtype) is not data.dtype):
        raise NotBuilt("nl.gather_flattened: axis=%s, dtype=%s: built is axis=0 of data's type"
                       % (axis, dtype))

    def emit(d, s, i):
        if i.dtype is not find("uint32"):
            whole_indices = new_tile(i.shape, find("uint32"))
            insn.tensor_copy(whole_indices, i)
            i = whole_indices
        emit_n_gather(d, insn.in_sbuf(s), insn.in_sbuf(i))
    return returned(indices.shape, data.dtype, emit, (data, indices), mask=mask,
                    call="nl.gather_flattened", how=WHOLE)


def device_print(print_prefix, tensor=None, *others, mask=None):
    """Prints a tensor, or a register such as that of a dynamic_range, with a prefix when the kernel
    runs."""
    if not isinstance(print_prefix, str):
        raise KernelError("nl.device_print: print_prefix is %s, not a string"
                          % insn.said(print_prefix))
    whole_mask(mask, "nl.device_print")
    text = print_prefix.encode()
    record.active().prints = True
    if isinstance(tensor, RegisterValue):
        record.active().emit(insn.OP["device_print_value"], -1,
                             ((len(text),) + tuple(text), insn.integer(tensor), (0,)))
        return
    x = need(tensor, "tensor", "nl.device_print")
    if x.memory == PSUM:
        x = insn.in_sbuf(x)
    record.active().emit(insn.OP["device_print"], -1, ((len(text),) + tuple(text), x.words(), (0,)))


class LoopReduce:
    """The result of nl.loop_reduce: `x[...] = it` writes x in the first round and combines into it
    in later ones."""

    def __init__(self, x, op, first, dtype):
        self.x, self.op, self.first, self.dtype = x, op, first, dtype

    def assign_to(self, view):
        if self.first:
            view[...] = self.x
            return
        from ._math import binary_into
        binary_into(view, self.op, view, self.x)


def loop_reduce(x, op, loop_indices, dtype=None, name=None, mask=None):
    """The reduction of x over the rounds of loops; assign it to a part of a tile."""
    whole_mask(mask, "nl.loop_reduce")
    if any(insn.whole(i) is None for i in loop_indices):
        raise NotBuilt("nl.loop_reduce over a loop at run time: take a loop that is unrolled")
    return LoopReduce(x, op, all(int(i) == 0 for i in loop_indices), dtype)


def all_reduce(*args, **kwargs):
    """Refused: it reduces over the programs of a grid."""
    raise NotBuilt("nl.all_reduce is not built: reduce in one program, or let each program store "
                   "its part in shared_hbm, for a second kernel that reduces them")
