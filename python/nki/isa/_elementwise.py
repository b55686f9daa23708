"""Elementwise instructions of vector, scalar and gpsimd, with their accumulator registers."""
from soma import dtypes, ops
from soma.kernel import pack
from soma.native import _soma
from soma.register import RegisterValue
from soma.ops import act, alu, optional

from . import constants as c
from ._common import (EACH, FREE_DIMENSIONS, SBUF, KernelError, Tensor, absent, cmd_of,
                      crop, done, engine_of, in_parts, insn, masked, need, new_tile, one_in_sbuf,
                      one_record, record, recorders, returned, shift, staged, whole_mask)
from ._shapes import paired

_TT, _TS, _STT = insn.OP["tensor_tensor"], insn.OP["tensor_scalar"], insn.OP["scalar_tensor_tensor"]
_ACT, _ACT2, _ACT_READ = insn.OP["activate"], insn.OP["activate2"], insn.OP["act_read_acc"]
_READ, _TSR, _TSC = insn.OP["dve_read_acc"], insn.OP["tensor_scalar_reduce"], \
    insn.OP["tensor_scalar_cumulative"]
_SCAN, _RECIPROCAL, _PRED = insn.OP["tensor_tensor_scan"], insn.OP["reciprocal"], \
    insn.OP["copy_predicated"]
_EXP, _QUANT = insn.OP["exponential"], insn.OP["quantize_mx"]
_RSQRT, _POW = insn.ALU.get("rsqrt"), insn.ALU.get("pow")
_WORDS32 = frozenset((dtypes.int32.code, dtypes.uint32.code))
unknown, _IDLE = c.engine.unknown, c.reduce_cmd.idle


def _out(dtype, *tensors):
    """The type of a result tile: as asked for, else that of the operands."""
    if dtype is not None:
        return dtypes.find(dtype)
    found = tensors[0].dtype
    for t in tensors[1:]:
        found = dtypes.promote(found, t.dtype)
    return found


def imm(x, op, what):
    """Words of an immediate of `op`: a number, a register, or a [P, 1] tile. For operators on bits
    the number is an integer, taken as it is."""
    # Their second operand is not looked at.
    if op in ops.UNARY:
        return insn.NONE
    if x is None:
        raise KernelError("%s is None: the operator has two operands" % what)
    # As it is, without a way through float32.
    if op in ops.BITS and isinstance(x, RegisterValue):
        return pack((2, insn.plain_register(x)))
    if op in ops.BITS and x.__class__ is not Tensor:
        k = insn.whole(x)
        if k is None:
            raise KernelError("%s is %r: an operator on bits takes a whole number" % (what, x))
        return pack((1, k))
    return insn.number(x, what)


def as_float32(x):
    """A [P, 1] tile of another type as float32, which vectors of numbers must be."""
    if x.__class__ is not Tensor or x.dtype is dtypes.float32:
        return x
    copy = new_tile((x.shape[0], 1), dtypes.float32)
    insn.tensor_copy(copy, x)
    return copy


def tt_engine(dst, a, b, op):
    """Words of 32 bits in SBUF are added exactly on gpsimd, if no engine is named."""
    # pow is gpsimd's alone.
    if op == _POW:
        return insn.GPSIMD
    # Where both are words of 32 bits vector and gpsimd give different bits, so that the choice
    # is made here.
    if a.dtype.code not in _WORDS32 or b.dtype.code not in _WORDS32:
        return -1
    if dst.dtype.code in _WORDS32 and a.memory == b.memory == dst.memory == SBUF and \
            op not in ops.BITS:
        return insn.GPSIMD
    return insn.VECTOR


def emit_tt(dst, a, b, op, engine=-1):
    rec = recorders[0]
    if engine == -1:
        engine = tt_engine(dst, a, b, op)
    if len(dst.shape) > FREE_DIMENSIONS + 1:
        in_parts(lambda d, x, y: rec.emit(_TT, engine, (d, x, y, (op, 0))),
                 dst, a, b)
    else:
        rec.emit(_TT, engine, (dst, a, b, (op, 0)))


@one_record("tensor_tensor", None, _soma.FLOATS)
def tensor_tensor(dst=None, data1=None, data2=absent, op=None, engine=unknown, name=None,
                  mask=None, dtype=None):
    """dst = data1 op data2."""
    # The old style is (data1, data2, op), and returns a tile.
    if data2.__class__ is not Tensor:
        if op is None and data2 is not absent and not hasattr(data2, "as_tensor"):
            op, data2 = data2, absent
        if data2 is absent:
            dst, data1, data2 = None, dst, data1
    if data1.__class__ is not Tensor or data2.__class__ is not Tensor:
        data1, data2 = need(data1, "data1", "tensor_tensor"), need(data2, "data2", "tensor_tensor")
    code = alu(op)
    e = -1 if engine is unknown else engine_of(engine, "tensor_tensor")
    if dst is None or mask is not None:
        def emit(d, a, b):
            emit_tt(d, a, b, code, e)
        if dst is not None:
            return masked(mask, "tensor_tensor", emit, EACH)(need(dst, "dst", "tensor_tensor"),
                                                             data1, data2)
        old = staged(emit) if code == _POW else one_in_sbuf(emit)
        shape, data1, data2 = paired(data1, data2, True)
        # A tile may be repeated along an axis of 1.
        operands = [t if t.shape == shape else t.broadcast_steps(shape) for t in (data1, data2)]
        return returned(shape, _out(dtype, data1, data2), old, operands, mask=mask,
                        call="tensor_tensor", how=EACH)
    rec = record.active()
    first = rec.count
    emit_tt(need(dst, "dst", "tensor_tensor"), data1, data2, code, e)
    return done(rec, first, name)


def _ts_words(op0, operand0, reverse0, op1, operand1, reverse1):
    """Words of a tensor_scalar after its operands dst and src, packed."""
    w0 = imm(operand0, op0, "operand0")
    w1 = imm(operand1, op1, "operand1") if op1 else insn.NONE
    return b"".join((pack((op0,)), w0, pack((op1,)), w1, pack((reverse0, reverse1, 0))))


def emit_ts(dst, src, op0, operand0, reverse0=0, op1=0, operand1=None, reverse1=0, engine=-1):
    words = _ts_words(op0, operand0, reverse0, op1, operand1, reverse1)
    # rsqrt is gpsimd's alone.
    if engine == -1 and (op0 == _RSQRT or op1 == _RSQRT):
        engine = insn.GPSIMD
    rec = recorders[0]
    # More dimensions than an operand can have.
    if len(src.shape) > FREE_DIMENSIONS + 1:
        in_parts(lambda d, s: rec.emit(_TS, engine, (d, s, words)), dst, src)
    else:
        rec.emit(_TS, engine, (dst, src, words))


@one_record("tensor_scalar", None, _soma.ORDER, ("op1",))
def tensor_scalar(dst=None, data=None, op0=None, operand0=None, reverse0=False, op1=None,
                  operand1=None, reverse1=False, engine=unknown, name=None, mask=None, dtype=None):
    """dst = (data op0 operand0) op1 operand1; operands are numbers or [P, 1] tiles."""
    # Without dst all arguments stand one place further to the left.
    if data.__class__ is not Tensor and not hasattr(data, "as_tensor"):
        dst, data, op0, operand0, reverse0, op1, operand1, reverse1 = shift(
            (dst, data, op0, operand0, reverse0, op1, operand1, reverse1))[:8]
    if data.__class__ is not Tensor:
        data = need(data, "data", "tensor_scalar")
    a, b = alu(op0, "op0"), 0 if op1 is None else alu(op1, "op1")
    r0, r1 = 1 if reverse0 else 0, 1 if reverse1 else 0
    e = -1 if engine is unknown else engine_of(engine, "tensor_scalar")
    if dst is None or mask is not None:
        def emit(d, s, x, y):
            # In the old style a vector of numbers may have another type.
            if dst is None and a not in ops.BITS:
                x, y = as_float32(x), as_float32(y)
            emit_ts(d, s, a, x, r0, b, y, r1, e)
        if dst is not None:
            return masked(mask, "tensor_scalar", emit, EACH)(
                need(dst, "dst", "tensor_scalar"), data, operand0, operand1)
        return returned(data.shape, _out(dtype, data), emit, (data, operand0, operand1), mask=mask,
                        call="tensor_scalar", how=EACH)
    rec = record.active()
    first = rec.count
    dst = need(dst, "dst", "tensor_scalar")
    if dst.repeats:
        _coinciding(dst, lambda d: emit_ts(d, data, a, operand0, r0, b, operand1, r1, e))
    else:
        emit_ts(dst, data, a, operand0, r0, b, operand1, r1, e)
    return done(rec, first, name)


@one_record("scalar_tensor_tensor", insn.VECTOR)
def scalar_tensor_tensor(dst=None, data=None, op0=None, operand0=None, op1=None, operand1=None,
                         reverse0=False, reverse1=False, name=None, mask=None, dtype=None):
    """dst = (data op0 operand0) op1 operand1; operand1 is a tile like data."""
    if dst is not None and data.__class__ is not Tensor:
        dst, data, op0, operand0, op1, operand1 = shift(
            (dst, data, op0, operand0, op1, operand1))[:6]
    data = need(data, "data", "scalar_tensor_tensor")
    operand1 = need(operand1, "operand1", "scalar_tensor_tensor")
    a, b = alu(op0, "op0"), alu(op1, "op1")

    def emit(d, s, x, t):
        x = as_float32(x) if dst is None else x
        record.active().emit(_STT, insn.VECTOR, (
            d.words(), s.words(), (a,), imm(x, a, "operand0"), (b,), t.words(),
            (int(bool(reverse0)), int(bool(reverse1)))))
    return _either(dst, one_in_sbuf(emit) if dst is None else emit, (data, operand0, operand1),
                   data.shape, _out(dtype, data), mask, "scalar_tensor_tensor", name, how=EACH)


def _either(dst, emit, operands, shape, dtype, mask, call, name, multi=False, how=None):
    """Emits into dst, or returns a tile of the old style."""
    if dst is None:
        return returned(shape, dtype, emit, operands, mask=mask, call=call, multi=multi, how=how)
    rec = record.active()
    first = rec.count
    dst = need(dst, "dst", call)

    def emit_into(d, *parts):
        if d.repeats:
            _coinciding(d, lambda own: emit(own, *parts))
        else:
            emit(d, *parts)
    masked(mask, call, emit_into, how)(dst, *operands)
    return done(rec, first, name)


def _kept(result, reduce_res):
    """The result of a call that has another one in reduce_res, and may be dropped."""
    if reduce_res is not None:
        record.active().keep.append(result)
    return result


def _coinciding(dst, emit):
    """A destination some of whose elements coincide: the last of them stays. The instruction writes
    a tile of its own, and that is copied."""
    whole = insn.tile(dst.shape[0], dst.free_size, dst.dtype).reshape(dst.shape)
    emit(whole)
    # Where the step is 0, the last element alone.
    ends = tuple(slice(n - 1, n) if s == 0 else slice(None)
                 for n, s in zip(dst.shape[1:], dst.steps[1:]))
    insn.tensor_copy(dst[(slice(None),) + ends], whole[(slice(None),) + ends])


_LATE = Tensor, RegisterValue  # whose values are known when the kernel runs


def _act_words(fn, scale, bias, reduce):
    """Words of an activate after its operands dst and src, packed."""
    late = isinstance(scale, _LATE), isinstance(bias, _LATE)
    # What changes nothing is left out; of what is known late nothing is known here.
    scale = insn.NONE if not late[0] and scale == 1.0 else insn.number(scale, "scale")
    bias = insn.NONE if not late[1] and not bias else insn.number(bias, "bias")
    return b"".join((pack((fn,)), scale, bias, pack((reduce, 0))))


def emit_activate(dst, src, fn, scale=1.0, bias=None, reduce=0):
    recorders[0].emit(_ACT, insn.SCALAR, (dst, src, _act_words(fn, scale, bias, reduce)))


def read_accumulators(dst, negate=0, scalar=False):
    record.active().emit(_ACT_READ if scalar else _READ, insn.SCALAR if scalar else insn.VECTOR,
                         (need(dst, "reduce_res", "nki.isa").words(), (int(negate),)))


_SUMS = "act_read_acc", insn.SCALAR, "reduce_res", None


@one_record("activate", insn.SCALAR, _soma.ORDER, none_if_0=("bias",), only={"reduce_op": "add"},
            then=_SUMS, fn="op", reduce=("reduce_cmd", c.CMD))
def activation(dst=None, op=None, data=None, bias=None, scale=1.0, reduce_op=None, reduce_res=None,
               reduce_cmd=c.reduce_cmd.idle, name=None, mask=None, dtype=None):
    """dst = op(data * scale + bias) on scalar; with reduce_cmd the sums of rows go into the
    engine's registers, with reduce_res from there to a [P, 1] tile."""
    # The old style is (op, data).
    if dst is not None and dst.__class__ is not Tensor and ops.is_op(dst):
        dst, op, data = None, dst, op if op is not None else data
    if data.__class__ is not Tensor:
        data = need(data, "data", "activation")
    if reduce_res is not None:
        reduce_res = need(reduce_res, "reduce_res", "activation")
    fn, cmd = act(op), 0 if reduce_cmd is _IDLE else cmd_of(reduce_cmd, "activation")
    if reduce_op is not None and alu(reduce_op, "reduce_op") != insn.ALU["add"]:
        raise KernelError("activation: reduce_op=%s: the registers of scalar "
                          "take only add" % ops.name_of(reduce_op))

    def emit(d, s, by, plus, res):
        if dst is None:
            by = as_float32(by)
            # trn1 takes a vector for the bias, and no number.
            if record.active().gen == 2 and not isinstance(plus, _LATE) and plus:
                value, plus = plus, new_tile((s.shape[0], 1), dtypes.float32)
                insn.memset(plus, value)
        emit_activate(d, s, fn, by, plus, cmd)
        if res is not None:
            read_accumulators(res, scalar=True)
    # Sums are over all elements of a row, so a mask cannot split it.
    how = None if cmd or reduce_res is not None else EACH
    return _kept(_either(dst, emit, (data, scale, bias, reduce_res), data.shape, _out(dtype, data),
                         mask, "activation", name, how=how), reduce_res)


@one_record("activate", insn.SCALAR, _soma.ORDER | _soma.INTO, none_if_0=("bias",),
            only={"reduce_op": "add"}, then=_SUMS, fn="op", reduce=c.CMD[c.reduce_cmd.reset_reduce])
def activation_reduce(dst=None, op=None, data=None, reduce_op=None, reduce_res=None, bias=None,
                      scale=1.0, name=None, mask=None, dtype=None):
    """activation with reduce_cmd.reset_reduce."""
    return activation(dst, op, data, bias, scale, reduce_op, reduce_res, c.reduce_cmd.reset_reduce,
                      name, mask, dtype)


def activate2(dst, op, data, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False,
              reduce_op=None, reduce_res=None, reduce_cmd=c.reduce_cmd.idle, name=None):
    """dst = op((data op0 imm0) op1 imm1, relu_param) on scalar. From trn3."""
    rec = record.active()
    first = rec.count
    a, b, fn = optional(op0, "op0"), optional(op1, "op1"), act(op)
    rec.emit(_ACT2, insn.SCALAR, (
        dst.words(), data.words(), (fn, a), imm(imm0, a, "imm0") if a else (0,), (b,),
        imm(imm1, b, "imm1") if b else (0,),
        # Only prelu has the parameter.
        insn.number(relu_param if fn == insn.ACT["prelu"] else None),
        (int(bool(reverse0)), int(bool(reverse1)), cmd_of(reduce_cmd, "activate2"),
         optional(reduce_op))))
    if reduce_res is not None:
        read_accumulators(reduce_res, scalar=True)
    return done(rec, first, name)


@one_record("tensor_scalar_reduce", insn.VECTOR, _soma.INTO, op1="reduce_op", imm1=(
    _soma.NUMBER, "reduce_init", 0), reduce=("reduce_cmd", c.CMD),
    then=("dve_read_acc", insn.VECTOR, "reduce_res", "reduce_res_negate"))
def tensor_scalar_reduce(dst=None, data=None, op0=None, operand0=None, reduce_op=None,
                         reduce_res=None, reverse0=False, reduce_cmd=c.reduce_cmd.reset_reduce,
                         reduce_init=None, reduce_res_negate=False, name=None, mask=None,
                         dtype=None):
    """dst = data op0 operand0; reduce_res = reduce_op over its rows."""
    if dst is not None and data.__class__ is not Tensor:
        dst, data, op0, operand0, reduce_op, reduce_res = shift(
            (dst, data, op0, operand0, reduce_op, reduce_res))[:6]
    data = need(data, "data", "tensor_scalar_reduce")
    if reduce_res is not None:
        reduce_res = need(reduce_res, "reduce_res", "tensor_scalar_reduce")
    a, b = alu(op0, "op0"), alu(reduce_op, "reduce_op")

    def emit(d, s, x, res, init):
        record.active().emit(_TSR, insn.VECTOR, (
            d.words(), s.words(), (a,), imm(as_float32(x) if dst is None else x, a,
                                            "operand0"), (b,),
            insn.number(init, "reduce_init"),
            (int(bool(reverse0)), cmd_of(reduce_cmd, "tensor_scalar_reduce"))))
        if res is not None:
            read_accumulators(res, reduce_res_negate)
    return _kept(_either(dst, emit, (data, operand0, reduce_res, reduce_init), data.shape,
                         _out(dtype, data), mask, "tensor_scalar_reduce", name), reduce_res)


def tensor_scalar_cumulative(dst, src, op0, op1, imm0, imm1=None,
                             reduce_cmd=c.reduce_cmd.reset_reduce, name=None, reverse0=False,
                             mask=None):
    """r = (src op0 imm0) op1 r along each row; dst = r."""
    whole_mask(mask, "tensor_scalar_cumulative")
    rec = record.active()
    first = rec.count
    a = alu(op0, "op0")
    load = reduce_cmd == c.reduce_cmd.load_reduce
    dst, src = (need(x, what, "tensor_scalar_cumulative") for x, what in ((dst, "dst"),
                                                                          (src, "src")))
    rec.emit(_TSC, insn.VECTOR, (
        dst.words(), src.words(), (a,), imm(imm0, a, "imm0"), (alu(op1, "op1"),),
        # Only load_reduce begins with imm1.
        insn.number(imm1 if load else None, "imm1"),
        (int(bool(reverse0)), cmd_of(reduce_cmd, "tensor_scalar_cumulative"))))
    return done(rec, first, name)


@one_record("tensor_tensor_scan", insn.VECTOR, _soma.INTO)
def tensor_tensor_scan(dst=None, data0=None, data1=None, initial=None, op0=None, op1=None,
                       reverse0=False, reverse1=False, name=None, mask=None, dtype=None):
    """s = (data0 op0 s) op1 data1 along each row, from initial; dst = s."""
    if dst is not None and data1.__class__ is not Tensor:
        dst, data0, data1, initial, op0, op1 = shift((dst, data0, data1, initial, op0, op1))[:6]
    data0, data1 = need(data0, "data0", "tensor_tensor_scan"), need(data1, "data1",
                                                                    "tensor_tensor_scan")
    a, b = alu(op0, "op0"), alu(op1, "op1")

    def emit(d, x, start, y):
        record.active().emit(_SCAN, insn.VECTOR, (
            d.words(), x.words(), y.words(), insn.number(start, "initial"),
            (a, b, int(bool(reverse0)), int(bool(reverse1)))))
    return _either(dst, one_in_sbuf(emit) if dst is None else emit, (data0, initial, data1),
                   data0.shape, _out(dtype, data0, data1), mask, "tensor_tensor_scan", name)


@one_record("reciprocal")
def reciprocal(dst=None, data=absent, name=None, mask=None, dtype=None):
    """dst = 1 / data."""
    if data is absent:
        dst, data = None, dst
    data = need(data, "data", "reciprocal")

    def emit(d, s):
        record.active().emit(_RECIPROCAL, insn.ANY, (d.words(), s.words()))
    return _either(dst, emit, (data,), data.shape, _out(dtype, data), mask, "reciprocal", name,
                   how=EACH)


def emit_predicated(dst, src, predicate, reverse=0):
    """dst = src (a tile or a number) where predicate is not 0."""
    tile = src.__class__ is Tensor
    # Integers are filled as integers, others as bits of float32.
    if tile or not (dst.dtype.integer or dst.dtype.kind == "b"):
        value = (0,) if tile else insn.number(src, "src")
    else:
        value = (1, insn.fill_bits(src, dst.dtype))
    record.active().emit(_PRED, insn.VECTOR, (dst.words(), src.words() if tile else (0,), value,
                                              predicate.words(), (int(bool(reverse)),)))


@one_record("copy_predicated", insn.VECTOR, _soma.INTO | _soma.PREDICATE, imm=0)
def tensor_copy_predicated(dst=None, src=None, predicate=None, reverse_pred=False, name=None,
                           mask=None, dtype=None):
    """dst = src (a tile or a number) where predicate is not 0."""
    rec = record.active()
    first = rec.count
    parts = crop(mask, "tensor_copy_predicated", need(dst, "dst", "tensor_copy_predicated"), src,
                 need(predicate, "predicate", "tensor_copy_predicated"))
    if parts is not None:
        dst, src, predicate = parts
        # Predicates are looked at as bits: 0 or not.
        if predicate.dtype.kind == "b" or predicate.dtype.name == "int8":
            predicate = predicate.view("uint8")
        emit_predicated(dst, src, predicate, reverse_pred)
    return done(rec, first, name)


def exponential(dst, src, max_value=0.0, reduce_res=None, reduce_cmd=c.reduce_cmd.idle,
                reduce_init=0.0, name=None):
    """dst = exp(src - max_value) on vector; sums of rows by reduce_cmd. From trn3."""
    rec = record.active()
    first = rec.count
    load = reduce_cmd == c.reduce_cmd.load_reduce
    if not load and (reduce_init.__class__ is Tensor or reduce_init):
        raise KernelError("exponential: reduce_init is for reduce_cmd.load_reduce")
    dst, src = need(dst, "dst", "exponential"), need(src, "src", "exponential")
    rec.emit(_EXP, insn.VECTOR, (dst.words(), src.words(), insn.number(max_value, "max_value"),
                                 (cmd_of(reduce_cmd, "exponential"),),
                                 insn.number(reduce_init if load else None, "reduce_init")))
    if reduce_res is not None:
        read_accumulators(reduce_res)
    return done(rec, first, name)


def quantize_mx(dst, src, dst_scale, name=None):
    """dst, dst_scale = src in an MX format. From trn3."""
    rec = record.active()
    first = rec.count
    rec.emit(_QUANT, insn.VECTOR, [need(x, what, "quantize_mx").words() for x, what in (
        (dst, "dst"), (dst_scale, "dst_scale"), (src, "src"))])
    return done(rec, first, name)
