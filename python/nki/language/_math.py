"""Elementwise arithmetic on tiles. Tiles broadcast as NumPy's arrays do; a call returns a new tile
of the operands' type (dtype= another). Division multiplies by the reciprocal, as the hardware has
no division."""
import math

import numpy as np

from soma import dtypes, insn, ops, record
from soma.dtypes import find, float32, int32
from soma.errors import KernelError, NotBuilt
from soma.masks import Mask
from soma.native import _soma
from soma.tensor import PSUM, SBUF, Tensor

from ..isa._common import EACH, need, new_tile, one_record, returned
from ..isa._elementwise import emit_activate, emit_predicated, emit_ts, emit_tt
from ..isa._shapes import paired, together
from ._memory import aligned

_ALU, _ACT = insn.ALU, insn.ACT
_COMPARE = {_ALU.get(n) for n in ("is_equal", "not_equal", "is_ge", "is_gt", "is_le", "is_lt",
                                  "logical_and", "logical_or", "logical_xor")}
_POW = _ALU.get("pow")


def _is_tile(x):
    return x.__class__ is Tensor


def _tile(x, call):
    if x.__class__ is Tensor and x.storage.memory:
        return x
    if hasattr(x, "as_tensor"):
        x = x.as_tensor()
    if _is_tile(x) and x.memory == 0:
        raise KernelError("%s: an operand is in hbm: nl.load it first" % call)
    if isinstance(x, np.ndarray) and x.ndim:
        raise KernelError("%s: an operand is %s: give it to the kernel as an argument, or take "
                          "nl.load(nl.shared_constant(array))" % (call, insn.said(x)))
    return x


def emit_binary(d, op, x, y):
    """d = x op y for tiles and numbers of any broadcast shapes."""
    # An operand that begins where no engine starts is copied.
    if x.__class__ is Tensor and x.part:
        x = insn.reachable(x)
    if y.__class__ is Tensor:
        if y.part:
            y = insn.reachable(y)
    # A number is an immediate, but not of pow, which takes tiles alone.
    elif x.__class__ is Tensor and op != _POW:
        return emit_ts(d, x, op, y)
    if x.__class__ is not Tensor:
        # Nor on the left of an operator on bits.
        if op == _POW or (_is_tile(y) and y.dtype.integer and op in ops.BITS):
            x = _filled(x, y)
            return emit_binary(d, op, x, y)
        return emit_ts(d, y, op, x, 1)
    if y.__class__ is not Tensor:
        return emit_binary(d, op, x, _filled(y, x))
    # Words are exact only as tiles: an immediate goes by float32.
    words = x.dtype.size == 4 and x.dtype.integer and y.dtype.integer
    exact = words or op in ops.BITS or op == _POW
    # One number for each partition is an operand like a number.
    if y.free_size == 1 and x.free_size > 1 and not exact and y.shape[0] == x.shape[0]:
        return emit_ts(d, x, op, _column(y))
    if x.free_size == 1 and y.free_size > 1 and not exact and y.shape[0] == x.shape[0]:
        return emit_ts(d, y, op, _column(x), 1)
    shape, x, y = paired(x, y)
    x, y = aligned(x, shape), aligned(y, shape)
    # At most one operand of an instruction is in PSUM.
    if x.memory == y.memory == PSUM:
        y = insn.in_sbuf(y)
    # gpsimd has no way to PSUM.
    if op == _POW:
        x, y = insn.in_sbuf(x), insn.in_sbuf(y)
        if d.memory == PSUM:
            into = new_tile(shape, d.dtype)
            emit_tt(into, x, y, op)
            return insn.tensor_copy(d, into)
    emit_tt(d, x, y, op)


def _filled(value, like):
    """A tile of like's shape and type that holds a number."""
    t = new_tile(like.shape, like.dtype if like.dtype.integer else float32)
    insn.memset(t, value)
    return t


def _column(x):
    """A [P, 1] operand: float32, as vectors of numbers must be."""
    if x.dtype is float32:
        return x
    c = insn.tile(x.shape[0], 1, float32)
    insn.tensor_copy(c, x)
    return c


def _result_type(x, y, dtype):
    if dtype is not None:
        return find(dtype)
    if x.__class__ is Tensor is y.__class__:
        return dtypes.promote(x.dtype, y.dtype)
    tile, number = (x, y) if x.__class__ is Tensor else (y, x)
    # What NumPy would give: a fraction does not fit in an integer type.
    if tile.dtype.integer and isinstance(number, float) and not number.is_integer():
        return float32
    return tile.dtype


_emits = {}  # the code of a binary operator, and what emits it, by its name


def _binary(name, x, y, dtype=None, mask=None):
    op, emit = _emits[name]
    if x.__class__ is not Tensor or not x.storage.memory:
        x = _tile(x, "nl." + name)
    if y.__class__ is not float:
        y = _tile(y, "nl." + name)
    if x is None or y is None:
        raise KernelError("nl.%s: %s is None, not a tile or a number"
                          % (name, "x" if x is None else "y"))
    if y.__class__ is not Tensor:
        if x.__class__ is not Tensor:
            raise KernelError("nl.%s of %r and %r: one operand must be a tile" % (name, x, y))
        shape = x.shape
    elif x.__class__ is not Tensor:
        shape = y.shape
    elif mask.__class__ is Mask and len(mask.size) == len(y.shape) > len(x.shape):
        shape, y, x = paired(y, x)  # the mask's axes are y's
    elif x.shape == y.shape:
        shape = x.shape
    else:
        shape, x, y = paired(x, y)
    # A mask cuts axes, so that the operands need all of them.
    if mask is not None and mask is not True:
        x, y = (aligned(t, shape) if _is_tile(t) and t.free_size > 1 else t for t in (x, y))
    return returned(shape, _result_type(x, y, dtype), emit, (x, y), SBUF, mask, "nl." + name,
                    how=EACH)


def binary_into(view, op, x, y):
    """view = x op y, now."""
    emit_binary(view, ops.alu(op), x, y)


def _make_binary(name, text):
    call, op = "nl." + name, ops.alu(name)

    def emit(d, x, y):
        emit_binary(d, op, x, y)
    _emits[name] = op, emit

    def function(x, y, dtype=None, mask=None):
        return _binary(name, x, y, dtype, mask)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "%s, element by element." % text
    if op not in ops.usual.values():
        return function
    conditions = _soma.FLOATS | _soma.ON_CHIP
    by_number = one_record("tensor_scalar", conditions=conditions, src="x", op0=op, imm0="y")
    by_tile = one_record("tensor_tensor", conditions=conditions, src0="x", src1="y", op=op)
    return by_tile(by_number(function))


add = _make_binary("add", "x + y")
subtract = _make_binary("subtract", "x - y")
multiply = _make_binary("multiply", "x * y")
maximum = _make_binary("maximum", "The larger of x and y")
minimum = _make_binary("minimum", "The smaller of x and y")
abs_max = _make_binary("abs_max", "Of x and y the one of larger magnitude (trn3)")
abs_min = _make_binary("abs_min", "Of x and y the one of smaller magnitude (trn3)")
power = _make_binary("power", "x to the power of y, on gpsimd")
equal = _make_binary("equal", "1 where x == y, else 0")
not_equal = _make_binary("not_equal", "1 where x != y, else 0")
less = _make_binary("less", "1 where x < y, else 0")
less_equal = _make_binary("less_equal", "1 where x <= y, else 0")
greater = _make_binary("greater", "1 where x > y, else 0")
greater_equal = _make_binary("greater_equal", "1 where x >= y, else 0")
bitwise_and = _make_binary("bitwise_and", "x & y")
bitwise_or = _make_binary("bitwise_or", "x | y")
bitwise_xor = _make_binary("bitwise_xor", "x ^ y")
left_shift = _make_binary("left_shift", "x << y")
right_shift = _make_binary("right_shift", "x >> y, filling with zeros")
logical_and = _make_binary("logical_and", "1 where x and y are not 0, else 0")
logical_or = _make_binary("logical_or", "1 where x or y is not 0, else 0")
logical_xor = _make_binary("logical_xor", "1 where one of x and y is not 0, else 0")


def divide(x, y, dtype=None, mask=None):
    """x / y as x times the reciprocal of y, which is rounded: the last bit may differ from a true
    division. Whole numbers give float32."""
    x, y = _tile(x, "nl.divide"), _tile(y, "nl.divide")
    if not _is_tile(x) and not _is_tile(y):
        raise KernelError("nl.divide of %r and %r: one operand must be a tile" % (x, y))
    # A number's reciprocal is made here.
    if not _is_tile(y):
        t = float32 if x.dtype.integer else x.dtype
        with np.errstate(divide="ignore"):  # by 0: infinite, as NumPy's
            inverse = float(np.divide(1.0, y))
        return _binary("multiply", x, inverse, dtype or t, mask)

    def emit(d, a, b):
        inverse = new_tile(b.shape, float32)
        record.active().emit(insn.OP["reciprocal"], insn.VECTOR, (inverse.words(), b.words()))
        emit_binary(d, _ALU["mult"], a, inverse)
    t, shape = _result_type(x, y, dtype), y.shape
    if _is_tile(x):
        shape, x, y = paired(x, y)
    return returned(shape, float32 if t.integer and dtype is None else t, emit, (x, y), mask=mask,
                    call="nl.divide", how=EACH)


def _unary(name, x, emit, dtype=None, mask=None):
    """emit(dst, src) as a call; src is where engines reach it."""
    if x.__class__ is not Tensor or not x.storage.memory:
        x = _tile(need(x, "x", "nl." + name), "nl." + name)
    if x.part:
        plain = emit

        def emit(d, s):
            plain(d, insn.reachable(s))
    return returned(x.shape, x.dtype if dtype is None else find(dtype), emit, (x,), SBUF, mask,
                    "nl." + name, how=EACH)


def _make_act(name, text):
    code = _ACT.get("abs" if name == "absolute" else name, 0)

    def emit(d, s):
        emit_activate(d, s, code)

    def function(x, dtype=None, mask=None):
        return _unary(name, x, emit, dtype, mask)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "%s, element by element, on scalar." % text
    return one_record("activate", insn.SCALAR, _soma.ON_CHIP, src="x", fn=code)(function)


exp = _make_act("exp", "e to the power of x")
log = _make_act("log", "The natural logarithm")
sqrt = _make_act("sqrt", "The square root")
tanh = _make_act("tanh", "The hyperbolic tangent")
sigmoid = _make_act("sigmoid", "The logistic function")
relu = _make_act("relu", "x where x > 0, else 0")
gelu = _make_act("gelu", "GELU")
gelu_dx = _make_act("gelu_dx", "The derivative of GELU")
gelu_apprx_tanh = _make_act("gelu_apprx_tanh", "GELU by tanh")
gelu_apprx_sigmoid = _make_act("gelu_apprx_sigmoid", "GELU by a sigmoid")
gelu_apprx_sigmoid_dx = _make_act("gelu_apprx_sigmoid_dx", "The derivative of GELU by a sigmoid")
silu = _make_act("silu", "x times its sigmoid")
silu_dx = _make_act("silu_dx", "The derivative of silu")
softplus = _make_act("softplus", "log(1 + e^x)")
mish = _make_act("mish", "x times the tanh of softplus")
erf = _make_act("erf", "The error function")
erf_dx = _make_act("erf_dx", "The derivative of the error function")
arctan = _make_act("arctan", "The arc tangent")
sign = _make_act("sign", "-1, 0 or 1")
square = _make_act("square", "x * x")
abs = _make_act("abs", "The magnitude")


def prelu(x, *args, **kwargs):
    """An activation function of nisa.activate2 (trn3)."""
    raise NotBuilt("nl.prelu on tiles is not built: use it as the op of nisa.activate2")


def bypass(x, *args, **kwargs):
    """The operator that does nothing."""
    raise NotBuilt("nl.bypass on tiles is not built: use it as an op of instructions")


def average(x, *args, **kwargs):
    """An operator of instructions."""
    raise NotBuilt("nl.average on tiles is not built: use it as an op of instructions")


def reciprocal(x, dtype=None, mask=None):
    """1 / x on vector."""
    return _unary("reciprocal", x, lambda d, s: record.active().emit(
        insn.OP["reciprocal"], insn.VECTOR, (d.words(), s.words())), dtype, mask)


def rsqrt(x, dtype=None, mask=None):
    """1 / sqrt(x): on gpsimd, of PSUM tiles on scalar."""
    def emit(d, s):
        if s.memory == d.memory == SBUF:
            emit_ts(d, s, _ALU["rsqrt"], None)
        else:
            emit_activate(d, s, _ACT["rsqrt"])
    return _unary("rsqrt", x, emit, dtype, mask)


def negative(x, dtype=None, mask=None):
    """-x."""
    return _unary("negative", x, lambda d, s: emit_ts(d, s, _ALU["mult"], -1.0), dtype, mask)


def invert(x, dtype=None, mask=None):
    """The complement of the bits."""
    return _unary("invert", x, lambda d, s: emit_ts(d, s, _ALU["bitwise_not"], None), dtype, mask)


def logical_not(x, dtype=None, mask=None):
    """1 where x is 0, else 0."""
    return _unary("logical_not", x, lambda d, s: emit_ts(d, s, _ALU["is_equal"], 0.0), dtype, mask)


def _rounded(s):
    """(the whole numbers nearest to s as float32, s as float32)."""
    # A copy to int32 rounds to nearest.
    near, back = new_tile(s.shape, int32), new_tile(s.shape, float32)
    insn.tensor_copy(near, s)
    insn.tensor_copy(back, near)
    return back


def _keep_large(d, s):
    """Numbers from 2^23 on are whole: they stay as they are."""
    # int32 has room up to 2^31; floats from 2^23 on have no fraction.
    large = new_tile(s.shape, find("uint8"))
    emit_ts(large, s, _ALU["abs"], None, 0, _ALU["is_ge"], 8388608.0)
    source = s
    if s.dtype is not d.dtype:
        source = new_tile(s.shape, d.dtype)
        insn.tensor_copy(source, s)
    emit_predicated(d, source, large)


def _steps_to(compare, sign):
    """floor or ceil: the nearest whole number, moved by one if it lies on the wrong side."""
    def emit(d, s):
        near, off = _rounded(s), new_tile(s.shape, float32)
        source = insn.in_sbuf(s)
        emit_tt(off, near, source, _ALU[compare])
        into = new_tile(s.shape, d.dtype)
        emit_tt(into, near, off, _ALU[sign])
        _keep_large(into, source)
        # Through a tile of its own, since d may be what s is.
        insn.tensor_copy(d, into)
    return emit


def floor(x, dtype=None, mask=None):
    """The largest whole number that is not above x."""
    return _unary("floor", x, _steps_to("is_gt", "subtract"), dtype, mask)


def ceil(x, dtype=None, mask=None):
    """The least whole number that is not below x."""
    return _unary("ceil", x, _steps_to("is_lt", "add"), dtype, mask)


def trunc(x, dtype=None, mask=None):
    """x without its fraction."""
    def emit(d, s):
        # The magnitude rounded down, with the sign of x.
        size, signs = new_tile(s.shape, float32), new_tile(s.shape, float32)
        emit_activate(size, s, _ACT["abs"])
        emit_activate(signs, s, _ACT["sign"])
        whole = new_tile(s.shape, float32)
        _steps_to("is_gt", "subtract")(whole, size)
        emit_tt(d, whole, signs, _ALU["mult"])
    return _unary("trunc", x, emit, dtype, mask)


def _sine(d, s, shift):
    """sin(s + shift), its argument reduced to [-pi, pi] by two parts of 2 pi."""
    x, turns = new_tile(s.shape, float32), new_tile(s.shape, float32)
    emit_ts(x, s, _ALU["add"], shift)
    emit_ts(turns, x, _ALU["mult"], 1.0 / (2 * math.pi))
    near = _rounded(turns)
    # 2 pi in two parts, the first with few bits, so that its product with a whole number is
    # exact.
    for part in (-6.28125, -(2 * math.pi - 6.28125)):
        step = new_tile(s.shape, float32)
        record.active().emit(insn.OP["scalar_tensor_tensor"], insn.VECTOR, (
            step.words(), near.words(), (_ALU["mult"],), insn.number(part), (_ALU["add"],),
            x.words(), (0, 0)))
        x = step
    # float32's next below pi: rounding may have led beyond it.
    pi = 3.1415925
    emit_ts(x, x, _ALU["min"], pi, 0, _ALU["max"], -pi)
    emit_activate(d, x, _ACT["sin"])


def sin(x, dtype=None, mask=None):
    """The sine of any argument."""
    return _unary("sin", x, lambda d, s: _sine(d, s, 0.0), dtype, mask)


def cos(x, dtype=None, mask=None):
    """The cosine of any argument, as a sine."""
    return _unary("cos", x, lambda d, s: _sine(d, s, math.pi / 2), dtype, mask)


def tan(x, dtype=None, mask=None):
    """The tangent: sine times the reciprocal of the cosine."""
    def emit(d, s):
        up, down = new_tile(s.shape, float32), new_tile(s.shape, float32)
        _sine(up, s, 0.0)
        _sine(down, s, math.pi / 2)
        record.active().emit(insn.OP["reciprocal"], insn.VECTOR, (down.words(), down.words()))
        emit_tt(d, up, down, _ALU["mult"])
    return _unary("tan", x, emit, dtype, mask)


def where(condition, x, y, dtype=None, mask=None):
    """x where condition is not 0, else y."""
    condition = _tile(need(condition, "condition", "nl.where"), "nl.where")
    x, y = _tile(x, "nl.where"), _tile(y, "nl.where")
    shape, tiles = together(*[t for t in (condition, x, y) if _is_tile(t)])
    condition, x, y = [tiles.pop(0) if _is_tile(t) else t for t in (condition, x, y)]
    t = find(dtype) if dtype is not None else _result_type(x, y,
                                                           None) if _is_tile(x) or _is_tile(y) \
        else float32

    def emit(d, c, a, b):
        chosen = new_tile(d.shape, find("uint8"))
        emit_ts(chosen, aligned(c, d.shape), _ALU["not_equal"], 0.0)
        into = new_tile(d.shape, d.dtype)
        insn.assign(into, aligned(b, d.shape) if _is_tile(b) else b)
        if _is_tile(a):
            a = aligned(a, d.shape)
            if a.dtype is not d.dtype:
                same = new_tile(d.shape, d.dtype)
                insn.tensor_copy(same, a)
                a = same
        emit_predicated(into, a, chosen)
        insn.tensor_copy(d, into)
    return returned(shape, t, emit, (condition, x, y), mask=mask, call="nl.where", how=EACH)


def dropout(x, rate, dtype=None, mask=None):
    """x with elements replaced by 0 with the probability rate."""
    from ..isa._gpsimd import dropout as nisa_dropout
    return nisa_dropout(data=x, prob=rate, dtype=dtype, mask=mask)


