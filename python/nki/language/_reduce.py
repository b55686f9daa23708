"""Reductions of tiles along free axes, and what is made of them."""
from soma import insn, record
from soma.dtypes import find, float32
from soma.ops import alu

from ..isa._common import need, new_tile, returned
from ..isa._elementwise import emit_activate, emit_ts, emit_tt
from ..isa._reduce import _masked_reduce, axes_of, emit_reduce, reduced_shape
from ._memory import aligned

_ALU, _ACT = insn.ALU, insn.ACT


def _reduce(name, op, x, axis, dtype, keepdims, mask, negate=False):
    x = need(x, "x", "nl." + name)
    axes = axes_of(axis, x.ndim, "nl." + name)
    code = alu(op)

    def emit(d, s):
        emit_reduce(d, s, code, axes, negate)
    t = x.dtype if dtype is None else find(dtype)
    if mask is not None:
        return _masked_reduce(x, emit, axes, keepdims, t, mask)
    return returned(reduced_shape(x.shape, axes, keepdims), t, emit, (x,), call="nl." + name)


def sum(x, axis, dtype=None, keepdims=False, mask=None):
    """The sum along free axes."""
    return _reduce("sum", "add", x, axis, dtype, keepdims, mask)


def prod(x, axis, dtype=None, keepdims=False, mask=None):
    """The product along free axes."""
    return _reduce("prod", "multiply", x, axis, dtype, keepdims, mask)


def max(x, axis, dtype=None, keepdims=False, mask=None):
    """The largest element along free axes."""
    return _reduce("max", "maximum", x, axis, dtype, keepdims, mask)


def min(x, axis, dtype=None, keepdims=False, mask=None):
    """The least element along free axes."""
    return _reduce("min", "minimum", x, axis, dtype, keepdims, mask)


def all(x, axis, dtype=None, mask=None):
    """1 where all elements along free axes are not 0, else 0."""
    return _reduce("all", "logical_and", x, axis, dtype, False, mask)


def _count(x, axes):
    n = 1
    for a in axes:
        n *= x.shape[a]
    return n


def mean(x, axis, dtype=None, keepdims=False, mask=None):
    """The mean along free axes."""
    x = need(x, "x", "nl.mean")
    axes = axes_of(axis, x.ndim, "nl.mean")

    def emit(d, s):
        total = new_tile(reduced_shape(s.shape, axes, False), float32)
        emit_reduce(total, s, _ALU["add"], axes)
        emit_ts(d, total, _ALU["mult"], 1.0 / _count(s, axes))
    return returned(reduced_shape(x.shape, axes, keepdims),
                    x.dtype if dtype is None else find(dtype),
                    emit, (x,), mask=mask, call="nl.mean")


def _centered(s, axes):
    """(s - mean as float32 of s's shape, the shape with reduced axes of size 1)."""
    kept = reduced_shape(s.shape, axes, True)
    middle = new_tile(kept, float32)
    emit_reduce(middle, s, _ALU["add"], axes)
    emit_ts(middle, middle, _ALU["mult"], 1.0 / _count(s, axes))
    off = new_tile(s.shape, float32)
    emit_tt(off, s, middle.broadcast_steps(s.shape), _ALU["subtract"])
    return off, kept


def var(x, axis, dtype=None, keepdims=False, mask=None):
    """The variance along free axes; the reduced axes stay with size 1."""
    x = need(x, "x", "nl.var")
    axes = axes_of(axis, x.ndim, "nl.var")

    def emit(d, s):
        off, kept = _centered(s, axes)
        emit_tt(off, off, off, _ALU["mult"])
        total = new_tile(kept, float32)
        emit_reduce(total, off, _ALU["add"], axes)
        emit_ts(d, total, _ALU["mult"], 1.0 / _count(s, axes))
    return returned(reduced_shape(x.shape, axes, True), x.dtype if dtype is None else find(dtype),
                    emit, (x,), mask=mask, call="nl.var")


def softmax(x, axis=-1, dtype=None, mask=None):
    """exp(x - max) over its sum, along free axes."""
    x = need(x, "x", "nl.softmax")
    axes = axes_of(axis, x.ndim, "nl.softmax")

    def emit(d, s):
        kept = reduced_shape(s.shape, axes, True)
        top, total = new_tile(kept, float32), new_tile(kept, float32)
        emit_reduce(top, s, _ALU["max"], axes)
        e = new_tile(s.shape, float32)
        emit_tt(e, s, top.broadcast_steps(s.shape), _ALU["subtract"])
        emit_activate(e, e, _ACT["exp"])
        emit_reduce(total, e, _ALU["add"], axes)
        record.active().emit(insn.OP["reciprocal"], insn.VECTOR, (total.words(), total.words()))
        emit_tt(d, e, total.broadcast_steps(s.shape), _ALU["mult"])
    return returned(x.shape, x.dtype if dtype is None else find(dtype), emit, (x,), mask=mask,
                    call="nl.softmax")


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None, mask=None):
    """x / sqrt(mean of n squares + epsilon) * w along free axes."""
    x, w = need(x, "x", "nl.rms_norm"), need(w, "w", "nl.rms_norm")
    axes = axes_of(axis, x.ndim, "nl.rms_norm")

    def emit(d, s, weight):
        kept = reduced_shape(s.shape, axes, True)
        squares, total = new_tile(s.shape, float32), new_tile(kept, float32)
        emit_activate(squares, s, _ACT["square"])
        emit_reduce(total, squares, _ALU["add"], axes)
        emit_ts(total, total, _ALU["mult"], 1.0 / n, 0, _ALU["add"], epsilon)
        emit_ts(total, total, _ALU["rsqrt"], None)
        scaled = new_tile(s.shape, float32)
        emit_tt(scaled, s, total.broadcast_steps(s.shape), _ALU["mult"])
        emit_tt(d, scaled, aligned(weight, s.shape), _ALU["mult"])
    return returned(x.shape, x.dtype if dtype is None else find(dtype), emit, (x, w), mask=mask,
                    call="nl.rms_norm")
