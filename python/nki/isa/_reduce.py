"""Reductions, selections with reductions, statistics, searches."""
import numpy as np

from soma import dtypes, ops
from soma.masks import mask_ranges
from soma.native import _soma
from soma.ops import alu
from soma.tensor import same_view, shares

from . import constants as c
from ._common import (ROWS, WHOLE, KernelError, NotBuilt, Tensor, absent, clear_outside, cmd_of,
                      crop, done, insn, need, new_tile, one_record, record, recorders,
                      returned, staged)
from ._elementwise import _either, _out, read_accumulators

LEAST = insn.float_bits(-3.4028234663852886e38)  # float32's, which other decimals mean, too
_REDUCE, _PREDUCE = insn.OP["tensor_reduce"], insn.OP["partition_reduce"]
_SELECT, _RANGE = insn.OP["select_reduce"], insn.OP["range_select"]
_BN, _AGGR, _MAX8 = insn.OP["bn_stats"], insn.OP["bn_aggr"], insn.OP["max8"]
_LOAD, _FIND, _REPLACE = insn.OP["match_value_load"], insn.OP["find_index8"], \
    insn.OP["match_replace8"]


def axes_of(axis, ndim, call):
    """The axes as sorted numbers from 1."""
    # One axis, as most calls have it.
    if axis.__class__ is int and 0 < axis < ndim:
        return [axis]
    axes = [insn.whole(a) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if None in axes:
        raise KernelError("%s: axis=%s: an axis is a whole number" % (call, insn.said(axis)))
    axes = sorted(a + (ndim if a < 0 else 0) for a in axes)
    if not axes or axes[0] < 1 or axes[-1] >= ndim:
        raise KernelError("%s: axis %s of a tile of %d dimensions: the free ones are 1 to %d%s"
                          % (call, axis, ndim, ndim - 1, "; axis 0 is the partitions: "
                             "nisa.tensor_partition_reduce takes those, or a matmul with ones "
                             "adds them" if 0 in axes else ""))
    return axes


def _merged(shape, steps):
    """Pairs (step, num) of dimensions, merged where they are dense; at least one."""
    # From the outermost on; a dimension of 1 joins any.
    dims = []
    for n, s in zip(shape, steps):
        if n == 1:
            continue
        if dims and dims[-1][0] == s * n:
            dims[-1] = (s, dims[-1][1] * n)
        else:
            dims.append((s, n))
    return dims


def emit_reduce(dst, src, op, axes, negate=0):
    """dst = op over these axes of src, which may be any free ones."""
    if len(src.shape) == 2 and src.shape[1] > 1:  # by far the most frequent: its words are exact
        recorders[0].emit(_REDUCE, insn.VECTOR, (dst, src, (op, 1, 1 if negate else 0)))
        return
    # The machine reduces the last dimensions: those that stay come first.
    keep = [d for d in range(1, src.ndim) if d not in axes]
    kept = _merged([src.shape[d] for d in keep], [src.steps[d] for d in keep])
    cut = _merged([src.shape[d] for d in axes], [src.steps[d] for d in axes]) or [(1, 1)]
    dims = kept + cut
    if len(dims) > 4:
        raise KernelError("tensor_reduce: the pattern of src has %d free dimensions, at most 4 are "
                          "possible" % len(dims))
    view = src.like((src.shape[0],) + tuple(n for _, n in dims),
                    (src.steps[0],) + tuple(s for s, _ in dims))
    record.active().emit(_REDUCE, insn.VECTOR, (dst.words(), view.exact_words(),
                                                (op, len(cut), int(bool(negate)))))


def reduced_shape(shape, axes, keepdims):
    """The shape that is left; a tile keeps two dimensions."""
    if len(shape) == 2:  # then axis 1 goes
        return shape[0], 1
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    out = tuple(n for d, n in enumerate(shape) if d not in axes)
    return out if len(out) > 1 else out + (1,)


@one_record("tensor_reduce", insn.VECTOR, _soma.INTO | _soma.APART, axes=(_soma.AXES, "axis", 1))
def tensor_reduce(dst=None, op=None, data=None, axis=None, negate=False, keepdims=False, name=None,
                  mask=None, dtype=None):
    """dst = op over the last free axes of data, in float32; negate changes the sign."""
    # The old style is (op, data, axis).
    if dst is not None and dst.__class__ is not Tensor and ops.is_op(dst):
        dst, op, data, axis = None, dst, op if op is not None else data, \
            data if axis is None else axis
    data = need(data, "data", "tensor_reduce")
    axes = axes_of(axis, data.ndim, "tensor_reduce")
    code = alu(op)
    # Without dst, the old style takes any axes.
    if dst is not None and axes != list(range(axes[0], data.ndim)):
        raise KernelError("tensor_reduce: axis %s of %d dimensions: the axes must be the last "
                          "ones, without a gap" % (axis, data.ndim))

    def emit(d, s):
        emit_reduce(d, s, code, axes, negate)
    if dst is None:
        return returned(reduced_shape(data.shape, axes, keepdims), _out(dtype, data), emit, (data,),
                        mask=mask, call="tensor_reduce") if mask is None else \
            _masked_reduce(data, emit, axes, keepdims, dtype, mask)
    rec = record.active()
    first = rec.count
    parts = crop(mask, "tensor_reduce", data)
    if parts is not None:
        dst, part = need(dst, "dst", "tensor_reduce"), parts[0]
        if shares(dst.storage, part.storage) and (
                dst.storage is not part.storage or _in_part(dst, part)):
            whole = insn.tile(dst.shape[0], dst.free_size, dst.dtype).reshape(dst.shape)
            emit(whole, part)  # all of it is read before dst is written
            insn.tensor_copy(dst, whole)
        else:
            emit(dst, part)
    return done(rec, first, name)


def _places(t):
    # Elements of a partition, each by its number.
    places = np.array([t.off])
    for n, step in zip(t.shape[1:], t.steps[1:]):
        places = (places[:, None] + np.arange(n) * step).ravel()
    return places


def _in_part(a, b):
    """Whether views of a tile, with elements of one size, have some places in common, but not
    exactly the same ones."""
    if a.part + a.shape[0] <= b.part or b.part + b.shape[0] <= a.part or a.dyn or b.dyn or \
            a.dtype.size != b.dtype.size or same_view(a, b):
        return False
    return np.intersect1d(_places(a), _places(b)).size > 0


def _masked_reduce(data, emit, axes, keepdims, dtype, mask):
    """A reduction of what a mask leaves: the kept axes of the result are cut accordingly."""
    def cut(d, s):
        full = d.reshape(reduced_shape(data.shape, axes, True))
        s, full = crop(mask, "tensor_reduce", s, full)
        emit(full, s)

    def whole_tile(d, s):
        part = crop(mask, "tensor_reduce", s)
        if part is None:  # nothing is left
            return
        # Rows that the mask leaves out are not written by the reduction.
        if d.shape[0] != s.shape[0] or part[0].shape[0] != s.shape[0]:
            insn.memset(d, 0)
        cut(d, s)
    return returned(reduced_shape(data.shape, axes, keepdims), _out(dtype, data), whole_tile,
                    (data,),
                    call="tensor_reduce")


def tensor_partition_reduce(dst=None, op=None, data=None, name=None, mask=None, dtype=None):
    """dst[1, N] = op over the partitions of data, on gpsimd."""
    # The old style is (op, data).
    if dst is not None and dst.__class__ is not Tensor:
        dst, op, data = None, dst, op if op is not None else data
    data = need(data, "data", "tensor_partition_reduce")
    code = alu(op)

    def emit(d, s):
        record.active().emit(_PREDUCE, insn.GPSIMD, (d.words(), s.words(), (code,)))
    return _either(dst, staged(emit) if dst is None else emit, (data,),
                   (1,) + tuple(data.shape[1:]), _out(dtype, data), mask,
                   "tensor_partition_reduce", name)


def range_select(dst=None, on_true_tile=None, comp_op0=None, comp_op1=None, bound0=None,
                 bound1=None,
                 reduce_cmd=c.reduce_cmd.reset_reduce, reduce_res=None, reduce_op="max",
                 range_start=0, on_false_value=None, name=None, mask=None, dtype=None):
    """dst = on_true_tile where (range_start + i) comp_op0 bound0 and comp_op1 bound1, else the
    least float32; by reduce_cmd also the rows' maximum."""
    on_true_tile = need(on_true_tile, "on_true_tile", "range_select")
    if on_false_value is not None and insn.number(on_false_value, "on_false_value") != \
            insn.K.pack((1, LEAST)):
        raise KernelError("range_select: on_false_value=%r: the machine fills with the least "
                          "float32"
                          % (on_false_value,))
    bound0, bound1 = need(bound0, "bound0", "range_select"), need(bound1, "bound1", "range_select")
    if reduce_res is not None:
        reduce_res = need(reduce_res, "reduce_res", "range_select")
    a, b = alu(comp_op0, "comp_op0"), alu(comp_op1, "comp_op1")
    cmd = cmd_of(reduce_cmd, "range_select")

    def emit(d, s, b0, b1, res):
        record.active().emit(_RANGE, insn.VECTOR, (
            d.words(), s.words(), b0.words(), b1.words(), (a, b),
            insn.number(float(range_start) if insn.whole(range_start) is not None else range_start),
            insn.number(None), (cmd, alu(reduce_op or "max", "reduce_op") if cmd else 0)))
        if res is not None:
            read_accumulators(res)
    # The rows' maximum is of all elements, and so cannot be made of parts.
    if cmd or reduce_res is not None:
        _from_the_start(mask, "range_select")
    return _either(dst, emit, (on_true_tile, bound0, bound1, reduce_res), on_true_tile.shape,
                   _out(dtype, on_true_tile), mask, "range_select", name,
                   how=None if cmd or reduce_res is not None else WHOLE)


def _from_the_start(mask, call):
    """Refuses a mask that leaves out the first elements, from which places are counted."""
    # Axis 0 is rows, which are independent.
    if any(a and lo for a, (lo, _) in mask_ranges(mask)[0].items()):
        raise NotBuilt("%s: mask %s: it must begin at element 0 of the rows" % (call, mask))


@one_record("select_reduce", insn.VECTOR, _soma.INTO | _soma.PREDICATE,
            reduce=("reduce_cmd", c.CMD), reduce_op=(_soma.IF_CODE, "reduce_op", -1),
            then=("dve_read_acc", insn.VECTOR, "reduce_res", None))
def select_reduce(dst=None, predicate=None, on_true=None, on_false=None, reduce_res=None,
                  reduce_cmd=c.reduce_cmd.idle, reduce_op="max", reverse_pred=False, name=None,
                  mask=None, dtype=None):
    """dst = on_true where predicate is not 0, else on_false; by reduce_cmd also the rows' maximum.
    """
    rec = record.active()
    first = rec.count
    # The fields of the reduction are 0 without one.
    cmd = cmd_of(reduce_cmd, "select_reduce")
    predicate = need(predicate, "predicate", "select_reduce")
    if predicate.dtype.kind == "b":
        predicate = predicate.view("uint8")
    rec.emit(_SELECT, insn.VECTOR, (
        need(dst, "dst", "select_reduce").words(), need(on_true, "on_true",
                                                        "select_reduce").words(),
        insn.number(on_false, "on_false"), predicate.words(),
        (int(bool(reverse_pred)), cmd, alu(reduce_op or "max", "reduce_op") if cmd else 0)))
    if reduce_res is not None:
        read_accumulators(reduce_res)
    return done(rec, first, name)


def _unary(op, call, dst, data, shape, dtype, mask, name, engine=insn.VECTOR):
    def emit(d, s):
        record.active().emit(op, engine, (d.words(), s.words()))
    return _either(dst, emit, (data,), shape, dtype, mask, call, name, how=ROWS)


@one_record("bn_stats", insn.VECTOR, _soma.INTO)
def bn_stats(dst=None, data=absent, name=None, mask=None, dtype=None):
    """dst[P, 6] = count, mean, variance * count of the even and of the odd elements."""
    if data is absent:
        dst, data = None, dst
    data = need(data, "data", "bn_stats")
    return _unary(_BN, "bn_stats", dst, data, (data.shape[0], 6),
                  _out(dtype, data), mask, name)


@one_record("bn_aggr", insn.VECTOR, _soma.INTO)
def bn_aggr(dst=None, data=absent, name=None, mask=None, dtype=None):
    """dst[P, 2] = mean and variance of merged bn_stats."""
    if data is absent:
        dst, data = None, dst
    data = need(data, "data", "bn_aggr")
    return _unary(_AGGR, "bn_aggr", dst, data, (data.shape[0], 2), _out(dtype, data), mask, name)


@one_record("max8", insn.VECTOR, _soma.INTO)
def max8(dst=None, src=absent, name=None, mask=None, dtype=None):
    """dst[P, 8] = the eight largest of each row, descending."""
    if src is absent:
        dst, src = None, dst
    src = need(src, "src", "max8")
    return _unary(_MAX8, "max8", dst, src, (src.shape[0], 8), _out(dtype, src), mask, name)


def _eight(vals, call):
    vals = need(vals, "vals", call)
    if vals.free_size != 8:
        raise KernelError("%s vals: %d elements per partition: it must have 8"
                          % (call, vals.free_size))
    return vals


def nc_find_index8(dst=None, data=None, vals=absent, name=None, mask=None, dtype=None):
    """dst[P, 8] = index of each of the eight vals in its row of data; all ones if it is missing."""
    if vals is absent:
        dst, data, vals = None, dst, data

    def emit(d, s, v):
        rec = record.active()
        # The eight values are kept by the engine for the next instruction.
        rec.emit(_LOAD, insn.VECTOR, (v.words(),))
        rec.emit(_FIND, insn.VECTOR, (d.words(), s.words()))
    data, vals = need(data, "data", "nc_find_index8"), _eight(vals, "nc_find_index8")
    _from_the_start(mask, "nc_find_index8")
    return _either(dst, emit, (data, vals), (data.shape[0], 8),
                   dtypes.find(dtype) if dtype is not None else dtypes.uint32, mask,
                   "nc_find_index8", name, how=ROWS)


def nc_match_replace8(dst=None, data=None, vals=None, imm=None, dst_idx=None, name=None, mask=None,
                      dtype=None):
    """dst = data with the first occurrence of each of the eight vals replaced by imm; dst_idx =
    their places."""
    data, vals = need(data, "data", "nc_match_replace8"), _eight(vals, "nc_match_replace8")

    def emit(d, s, v, places):
        rec = record.active()
        rec.emit(_LOAD, insn.VECTOR, (v.words(),))
        rec.emit(_REPLACE, insn.VECTOR, (d.words(), s.words(), insn.number(imm, "imm"),
                                         places.words() if places is not None else (0,)))
    # The rest of the new tile is zero, as for other calls.
    if mask is not None and dst is None:
        tile = new_tile(data.shape, _out(dtype, data))
        clear_outside(tile, mask)
        _rows_of(mask, emit)(tile, data, vals, dst_idx)
        return tile
    return _either(dst, emit, (data, vals, dst_idx), data.shape, _out(dtype, data), mask,
                   "nc_match_replace8", name)


def _rows_of(mask, emit):
    """With a mask of data: the [P, 8] operands are cut to its rows only."""
    def cut(d, s, v, places):
        parts = crop(mask, "nc_match_replace8", d, s)
        if parts is None:
            return
        # The [P, 8] tiles have a row for each of data's.
        rows = parts[0].shape[0]
        emit(parts[0], parts[1], v[0:rows], places[0:rows] if places is not None else None)
    return cut
