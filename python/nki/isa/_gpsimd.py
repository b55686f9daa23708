"""Iota, affine selection, gathers, positions, top-k; random numbers."""
from soma import dtypes
from soma.index import Index
from soma.masks import Mask
from soma.native import _soma
from soma.ops import alu

from . import constants as c
from ._common import (WHOLE, KernelError, Tensor, absent, done, engine_of, insn, need, number_of,
                      one_record, record, returned, staged)
from ._elementwise import _either, _out

_IOTA, _AFFINE = insn.OP["iota"], insn.OP["affine_select"]
_LGATHER, _NGATHER = insn.OP["local_gather"], insn.OP["n_gather"]
_BOUNDS, _NONZERO, _TOPK = (insn.OP[n] for n in ("sequence_bounds", "nonzero_with_count", "topk"))
_DROPOUT, _RNG, _SEED, _RAND2 = insn.OP["dropout"], insn.OP["rng"], insn.OP["set_rng_seed"], \
    insn.OP["rand2"]
_SET, _GET = insn.OP["rand_set_state"], insn.OP["rand_get_state"]


def _steps(pattern, call):
    """Words of a STEPS field from [step, count] pairs."""
    pairs = [tuple(map(insn.whole, p)) if isinstance(p, (list, tuple)) else () for p in pattern] \
        if isinstance(pattern, (list, tuple)) else [()]
    if len(pairs) > 4 or any(len(p) != 2 or None in p for p in pairs):
        raise KernelError("%s: pattern %s: up to four pairs of whole numbers [step, count]"
                          % (call, insn.said(pattern)))
    return (len(pairs),) + tuple(x for pair in pairs for x in pair)


def affine(index, shape):
    """(pattern, offset, multiplier) of an index over a tile's axes; axis 0 is the partitions."""
    # Axes end at the last one, as NumPy's.
    coef = [0] * (len(shape) - index.ndim) + list(index.coef)
    # One element at least; axes of size 1 do not move it.
    pattern = [[coef[a], shape[a]] for a in range(1, len(shape)) if shape[a] > 1] or [[0, 1]]
    return pattern, index.const, coef[0]


def emit_iota(dst, pattern, offset, multiplier):
    record.active().emit(_IOTA, insn.GPSIMD, (dst.words(), _steps(pattern, "iota"),
                                              insn.integer(offset, "iota: offset"),
                                              (number_of(multiplier, "channel_multiplier",
                                                         "iota"),)))


@one_record("iota", insn.GPSIMD, _soma.INTO)
def iota(dst=None, pattern=None, offset=0, channel_multiplier=0, name=None, mask=None, dtype=None,
         expr=None):
    """dst = offset + partition * channel_multiplier + pattern. The old style iota(expr, dtype)
    gives a tile of an index expression."""
    # The old style's first argument.
    expr = dst if isinstance(dst, Index) else expr
    if expr is not None and not isinstance(expr, Index):
        raise KernelError("iota: expr is %s, not an index" % insn.said(expr))
    if expr is not None:
        dtype = dtypes.find(dtype if dtype is not None else pattern)
        found = affine(expr, expr.shape)
        return returned(expr.shape, dtype, lambda d: emit_iota(d, *found), (), mask=mask,
                        call="iota", how=WHOLE)
    rec = record.active()
    first = rec.count
    emit_iota(need(dst, "dst", "iota"), pattern, offset, channel_multiplier)
    return done(rec, first, name)


def emit_affine(dst, src, fill, pattern, offset, multiplier, cmp):
    record.active().emit(_AFFINE, insn.GPSIMD, (
        dst.words(), src.words(), insn.number(fill, "on_false_value"),
        _steps(pattern, "affine_select"), insn.integer(offset, "affine_select: offset"),
        (number_of(multiplier, "channel_multiplier", "affine_select"), cmp)))


@one_record("affine_select", insn.GPSIMD, _soma.INTO, cmp="cmp_op")
def affine_select(dst=None, pattern=None, channel_multiplier=0, on_true_tile=None,
                  on_false_value=None, cmp_op="equal", offset=0, name=None, pred=None, mask=None,
                  dtype=None):
    """dst = on_true_tile where (offset + partition * channel_multiplier + pattern) cmp_op 0, else
    on_false_value. The old style takes pred, a mask, and returns a tile."""
    # The old style: pred, data, the other value.
    if isinstance(dst, Mask):
        pred, dst = dst, None
        on_true_tile = pattern if on_true_tile is None else on_true_tile
        on_false_value = channel_multiplier if on_false_value is None else on_false_value
    on_true_tile = need(on_true_tile, "on_true_tile", "affine_select")
    if pred is not None:
        return _by_mask(dst, pred, on_true_tile, on_false_value, dtype, name, mask)
    code = alu(cmp_op, "cmp_op")

    def emit(d, s):
        emit_affine(d, s, on_false_value, pattern, offset, channel_multiplier, code)
    return _either(dst, staged(emit) if dst is None else emit, (on_true_tile,),
                   on_true_tile.shape, _out(dtype, on_true_tile), mask, "affine_select", name,
                   how=WHOLE)


def _by_mask(dst, pred, tile, fill, dtype, name, mask):
    if not isinstance(pred, Mask):
        raise KernelError("affine_select: pred=%r is not a comparison of indices" % (pred,))
    # One of the two terms of an equality is enough, compared by ==.
    if pred.equal:
        terms, cmp = pred.terms[:1], insn.ALU["is_equal"]
    else:
        terms, cmp = pred.terms, insn.ALU["is_ge"]

    def emit(d, s):
        # One instruction for each bound, on what the one before has left.
        for t in terms:
            emit_affine(d, s, fill, *affine(t, tile.shape), cmp)
            s = d
    return _either(dst, staged(emit), (tile,), tile.shape, _out(dtype, tile), mask,
                   "affine_select", name, len(terms) > 1, WHOLE)


def local_gather(dst=None, src_buffer=None, index=None, num_elem_per_idx=1, num_valid_indices=None,
                 name=None, mask=None, dtype=None):
    """dst = src_buffer at indices that sixteen partitions share."""
    # The old style: src, index, and up to two numbers.
    if dst is not None and index.__class__ is not Tensor:
        num = [x for x in (index, num_elem_per_idx, num_valid_indices) if x is not None]
        dst, src_buffer, index = None, dst, src_buffer
        if len(num) > 1 and num[-1] == 1:
            num = num[:-1]
        num_elem_per_idx = num[0] if num else 1
        num_valid_indices = num[1] if len(num) > 1 else None
    src_buffer, index = need(src_buffer, "src_buffer", "local_gather"), need(index, "index",
                                                                            "local_gather")
    each = number_of(num_elem_per_idx, "num_elem_per_idx", "local_gather")
    valid = 0 if num_valid_indices is None else \
        number_of(num_valid_indices, "num_valid_indices", "local_gather")
    # Sixteen partitions share their indices.
    count = valid or index.free_size * 16

    def emit(d, s, i):
        record.active().emit(_LGATHER, insn.GPSIMD,
                             (d.words(), s.words(), i.words(), (each, valid)))
    shape = (src_buffer.shape[0], index.free_size, count // max(index.free_size, 1), each) \
        if count % index.free_size == 0 else (src_buffer.shape[0], count, each)
    return _either(dst, staged(emit) if dst is None else emit, (src_buffer, index), shape,
                   src_buffer.dtype, mask, "local_gather", name, how=WHOLE)


def emit_n_gather(dst, src, index):
    """512 indices at a time."""
    n = index.free_size
    flat_d, flat_i = (t.reshape((t.shape[0], n)) for t in (dst, index))
    # 512 is what one instruction takes.
    for at in range(0, n, 512):
        end = min(at + 512, n)
        record.active().emit(_NGATHER, insn.GPSIMD, (flat_d[:, at:end].words(), src.words(),
                                                     flat_i[:, at:end].words()))


def nc_n_gather(dst=None, data=None, indices=absent, name=None, mask=None, dtype=None):
    """dst[p, i] = data[p, indices[p, i]] over the flattened rows."""
    if indices is absent:
        dst, data, indices = None, dst, data
    data, indices = need(data, "data", "nc_n_gather"), need(indices, "indices", "nc_n_gather")
    return _either(dst, staged(emit_n_gather) if dst is None else emit_n_gather, (data, indices),
                   indices.shape, data.dtype, mask, "nc_n_gather", name, how=WHOLE)


def sequence_bounds(dst=None, segment_ids=absent, name=None, mask=None, dtype=None):
    """dst = start and end of each element's segment, of one partition."""
    if segment_ids is absent:
        dst, segment_ids = None, dst
    ids = need(segment_ids, "segment_ids", "sequence_bounds")

    def emit(d, s):
        record.active().emit(_BOUNDS, insn.GPSIMD, (d.words(), s.words()))
    return _either(dst, staged(emit) if dst is None else emit, (ids,),
                   (ids.shape[0], 2, ids.free_size), _out(dtype, ids), mask, "sequence_bounds",
                   name, how=WHOLE)


def nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None):
    """dst = the indices of nonzero elements of partitions 0, 16, ..., padding, and their count."""
    rec = record.active()
    first = rec.count
    call = "nonzero_with_count"
    rec.emit(_NONZERO, insn.GPSIMD, (
        need(dst, "dst", call).words(), need(src, "src", call).words(),
        (number_of(index_offset, "index_offset", call),
         number_of(padding_val, "padding_val", call))))
    return done(rec, first, name)


def topk(val_dst, idx_dst, src, n, name=None):
    """The largest values of lists of n elements in sixteen partitions, and their indices."""
    rec = record.active()
    first = rec.count
    rec.emit(_TOPK, insn.GPSIMD, (
        need(val_dst, "val_dst", "topk").words(), need(idx_dst, "idx_dst", "topk").words(),
        need(src, "src", "topk").words(), (number_of(n, "n", "topk"),)))
    return done(rec, first, name)


def dropout(dst=None, data=None, prob=None, name=None, mask=None, dtype=None):
    """dst = data with elements dropped by the probability prob, a number or a [P, 1] tile."""
    if dst is not None and data.__class__ is not Tensor:
        dst, data, prob = None, dst, data if prob is None else prob
    data = need(data, "data", "dropout")

    def emit(d, s, p):
        record.active().emit(_DROPOUT, insn.VECTOR, (d.words(), s.words(), insn.number(p, "prob"),
                                                     (0,)))
    return _either(dst, emit, (data, prob), data.shape, _out(dtype, data), mask, "dropout", name)


def rng(dst=None, engine=c.engine.vector, name=None, shape=None, dtype=None, mask=None):
    """dst = random bits."""
    e = engine_of(engine, "rng")
    # The old style gives a shape for dst.
    if dst is None or isinstance(dst, (tuple, list)):
        return returned(shape or dst, dtypes.find(dtype),
                        lambda d: record.active().emit(_RNG, e, (d.words(),)), (), call="rng")
    rec = record.active()
    first = rec.count
    rec.emit(_RNG, e, (need(dst, "dst", "rng").words(),))
    return done(rec, first, name)


def set_rng_seed(src_seeds, name=None):
    """The state of vector's generator from a seed of one element."""
    rec = record.active()
    first = rec.count
    rec.emit(_SEED, insn.VECTOR, (need(src_seeds, "src_seeds", "set_rng_seed").words(),))
    return done(rec, first, name)


def rand_set_state(src_seeds, engine=c.engine.gpsimd, name=None):
    """The state of a generator."""
    rec = record.active()
    first = rec.count
    rec.emit(_SET, engine_of(engine, "rand_set_state"), (need(
        src_seeds, "src_seeds", "rand_set_state").words(),))
    return done(rec, first, name)


def rand_get_state(dst, engine=c.engine.gpsimd, name=None):
    """dst = the state of a generator."""
    rec = record.active()
    first = rec.count
    rec.emit(_GET, engine_of(engine, "rand_get_state"),
             (need(dst, "dst", "rand_get_state").words(),))
    return done(rec, first, name)


def rand2(dst, min, max, name=None):
    """dst = uniform in [min, max]. From trn3."""
    rec = record.active()
    first = rec.count
    rec.emit(_RAND2, insn.VECTOR, (need(dst, "dst", "rand2").words(), insn.number(min, "min"),
                                   insn.number(max, "max")))
    return done(rec, first, name)


