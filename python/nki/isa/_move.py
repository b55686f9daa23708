"""Data movement: DMA, copies, fills, transposes by DMA, shuffles, registers."""
from soma import dtypes
from soma import kernel as K
from soma.checked import whole
from soma.native import _soma
from soma.register import Register, RegisterValue
from soma.tensor import same_view, shares
from soma.under import as_asked
from soma.views import declare_rows

from . import constants as c
from ._common import (DMA, EACH, PSUM, KernelError, NotBuilt, Tensor, absent, chosen, done,
                      engine_of, insn, masked, need, new_tile, number_of, one_record, record,
                      returned, whole_mask)

_TRANSPOSE, _COMPUTE = insn.OP["dma_transpose"], insn.OP["dma_compute"]
_MASK, _SHUFFLE = insn.OP["load_mask_register"], insn.OP["shuffle"]
_SWAP, _SWAP_GPSIMD = insn.OP["sendrecv"], insn.OP["sendrecv_gpsimd"]
_BARRIER = insn.OP["core_barrier"]
_BY_GPSIMD = {c.dma_engine.dma: False, c.dma_engine.gpsimd_dma: True}
_DGE = {c.dge_mode.unknown: 0, c.dge_mode.none: K.STATIC, c.dge_mode.swdge: K.SWDGE,
        c.dge_mode.hwdge: K.HWDGE, None: 0}

_ERROR, _ANY_DGE, _ANY = c.oob_mode.error, c.dge_mode.unknown, c.engine.unknown
_OOB = {mode: insn.OOB[mode.name] for mode in c.oob_mode}


def _priority(priority):
    return 0 if priority is None else priority


def _queue(rec, flags, engine):
    """The queue of a hwdge transfer that names its engine, else -1: the builder chooses."""
    # All names that leave it open.
    if engine in (None, c.engine.unknown, c.engine.dma):
        return -1
    if not flags & K.HWDGE:
        raise KernelError("dma_copy: engine=%s is for dge_mode.hwdge"
                          % getattr(engine, "name", insn.said(engine)))
    key = ("queue", engine)
    # One queue for each engine.
    if key not in rec.named:
        rec.named[key] = rec.builder.queue(2, engine_of(engine, "dma_copy"))
    return rec.named[key]


@one_record("dma_copy", conditions=_soma.STATIC)
def dma_copy(dst=None, src=None, priority=None, oob_mode=c.oob_mode.error,
             dge_mode=c.dge_mode.unknown, engine=c.engine.unknown, name=None, dst_rmw_op=None,
             mask=None, dtype=None, unique_indices=True):
    """dst = src by the DMA engines, converted through float32 if the types differ; dst_rmw_op=add
    adds. dst and src have the same number of elements. Between HBM and SBUF, or within either."""
    dst, src = need(dst, "dst", "dma_copy"), need(src, "src", "dma_copy")
    rec = record.active()
    first = rec.count
    flags = 0 if dge_mode is _ANY_DGE else chosen(_DGE, dge_mode, "dge_mode", "dma_copy")
    op = 0
    if dst_rmw_op is not None:
        from soma.ops import alu
        op = alu(dst_rmw_op, "dst_rmw_op")
    more = (flags, 0 if oob_mode is _ERROR else chosen(_OOB, oob_mode, "oob_mode", "dma_copy"),
            0 if priority is None else priority, op,
            -1 if engine is _ANY else _queue(rec, flags, engine))
    if mask is None:
        insn.dma_copy(dst, src, *more)
    else:
        masked(mask, "dma_copy", lambda d, s: insn.dma_copy(d, s, *more), DMA)(
            as_asked(dst), as_asked(src))
    return done(rec, first, name)


def dma_transpose(dst=None, src=absent, axes=None, priority=None, dge_mode=c.dge_mode.unknown,
                  oob_mode=c.oob_mode.error, name=None, mask=None, dtype=None):
    """dst = src with its axes reversed, of four [3, 1, 2, 0]. Without dst a tile is returned."""
    if src.__class__ is not Tensor:
        # The old style is (src, axes).
        if src is absent or src.__class__ in (tuple, list):
            dst, src, axes = None, dst, axes if axes is not None or src is absent else src
        src = need(src, "src", "dma_transpose")
    whole_mask(mask, "dma_transpose")
    if dtype is not None and _type(dtype) is not src.dtype:
        raise NotBuilt("dma_transpose: dtype=%s of %s: it moves elements as they are; copy the "
                       "result" % (_type(dtype), src.dtype))
    # The only orders that the machine has.
    order = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(src.ndim)
    if order is None or (axes is not None and (
            not isinstance(axes, (list, tuple)) or tuple(axes) != order)):
        raise KernelError("dma_transpose: axes %s of %d dimensions: there are (1, 0), (2, 1, 0) "
                          "and (3, 1, 2, 0)" % (axes, src.ndim))
    shape = tuple(src.shape[a] for a in order)
    for kind, index, _ in src.dyn:
        if kind == "gather" and index.dtype.name != "uint32":
            raise KernelError("dma_transpose: the index vector is %s: it must be uint32"
                              % index.dtype)
        if kind == "gather":  # the first dimension is what is transposed
            declare_rows(record.active(), src.storage, src.steps[0] * src.dtype.size)

    def emit(d, s):
        if tuple(d.shape) != shape:
            raise KernelError("dma_transpose: dst has shape %s; src %s transposed is %s"
                              % (list(d.shape), list(s.shape), list(shape)))
        if record.active().gen == 2 and not s.memory and not s.has("gather") and \
                dge_mode is not c.dge_mode.hwdge:  # trn1 has no transposing DMA: element by element
            insn.dma_copy(d, s.permute(order))
            return
        oob = chosen(_OOB, oob_mode, "oob_mode", "dma_transpose")
        record.active().emit(_TRANSPOSE, -1, (d.exact_words(), s.exact_words(),
                                              (-1, oob, _priority(priority))),
                             chosen(_DGE, dge_mode, "dge_mode", "dma_transpose"))
    if dst is None:
        return returned(shape, src.dtype, emit, (src,), call="dma_transpose")
    rec = record.active()
    first = rec.count
    emit(need(dst, "dst", "dma_transpose"), src)
    return done(rec, first, name)


def dma_compute(dst, srcs, reduce_op=None, scales=None, unique_indices=True,
                oob_mode=c.oob_mode.error, name=None):
    """dst = srcs[0] op srcs[1] op ... in float32 by the DMA engines."""
    from soma.ops import alu, is_op
    if isinstance(reduce_op, (list, tuple)) or (is_op(scales) and not is_op(reduce_op)):
        reduce_op, scales = scales, reduce_op  # the order before NKI 0.3
    rec = record.active()
    first = rec.count
    op = alu(reduce_op if reduce_op is not None else "add", "reduce_op")
    oob = chosen(_OOB, oob_mode, "oob_mode", "dma_compute")
    if not isinstance(srcs, (list, tuple)):
        raise KernelError("dma_compute: srcs is %s, not a list of tensors" % insn.said(srcs))
    dst, srcs = need(dst, "dst", "dma_compute"), [need(s, "a source", "dma_compute") for s in srcs]
    if not unique_indices and any(t.has("gather") for t in [dst] + srcs):
        raise NotBuilt("dma_compute with unique_indices=False: the machine's descriptors need "
                       "unique indices")
    if scales is not None and any(float(s) != 1.0 for s in scales):
        raise KernelError("dma_compute: scales %s: each must be 1.0" % (list(scales),))
    words = K.pack((len(srcs),)) + b"".join([s.words() for s in srcs])
    dst.storage.written = True
    rec.emit(_COMPUTE, -1, (dst.words(), words, (op, 0, -1, oob, 0)))
    return done(rec, first, name)


@one_record("tensor_copy", None)
def tensor_copy(dst=None, src=absent, engine=c.engine.unknown, name=None, mask=None, dtype=None):
    """dst = src between tiles in SBUF and PSUM."""
    if src.__class__ is not Tensor:
        if src.__class__ is c.engine:
            # The old style is (src, engine).
            engine, src = src, absent
        dst, src = (None, need(dst, "src", "tensor_copy")) if src is absent else \
            (dst, need(src, "src", "tensor_copy"))
    src = as_asked(src) if mask is not None else src
    e = -1 if engine is _ANY else engine_of(engine, "tensor_copy")
    if dst is None:
        return returned(src.shape, src.dtype if dtype is None else _type(dtype),
                        lambda d, s: insn.tensor_copy(d, s, e), (src,), mask=mask,
                        call="tensor_copy", how=EACH)
    rec = record.active()
    first = rec.count
    dst = need(dst, "dst", "tensor_copy")
    if mask is None:
        insn.tensor_copy(dst, src, e)
    else:
        masked(mask, "tensor_copy", lambda d, s: insn.tensor_copy(d, s, e), EACH)(
            as_asked(dst), as_asked(src))
    return done(rec, first, name)


def _type(dtype):
    from soma.dtypes import find
    return find(dtype)


@one_record("memset", None, _soma.INTO | _soma.NO_ZEROS, value=(_soma.FILL, "value", 0), filler=0)
def memset(dst=None, value=None, engine=c.engine.unknown, name=None, shape=None, dtype=None,
           mask=None):
    """Fills a tile with a number. The old style memset(shape, value, dtype) returns one."""
    if shape is not None or isinstance(dst, (tuple, list)):
        shape = dst if shape is None else shape
        if dtype is None:
            dtype, engine = engine, c.engine.unknown
        e = engine_of(engine, "memset")
        return returned(shape, _type(dtype), lambda d: insn.memset(d, value, e), (), mask=mask,
                        call="memset", how=EACH)
    dst = need(dst, "dst", "memset")
    rec = record.active()
    first = rec.count
    e = -1 if engine is _ANY else engine_of(engine, "memset")
    if mask is None:
        insn.memset(dst, value, e)
    else:
        masked(mask, "memset", lambda d: insn.memset(d, value, e), EACH)(dst)
    s = dst.storage
    # A whole tile of zeros in PSUM: a matmul that adds to it may write instead.
    if s.memory == PSUM and mask is None and not value and dst.size == s.parts * s.free:
        s.zero = record.ZeroState(s, filled=True)
    return done(rec, first, name)


def _meet(a, b):
    """True when the boxes around two views of a tile have bytes in common."""
    def ends(t):
        last = t.off + sum((n - 1) * step for n, step in zip(t.shape[1:], t.steps[1:]))
        return t.off * t.dtype.size, (last + 1) * t.dtype.size
    (a0, a1), (b0, b1) = ends(a), ends(b)
    return a.part < b.part + b.shape[0] and b.part < a.part + a.shape[0] and a0 < b1 and b0 < a1


def nc_stream_shuffle(dst=None, src=None, shuffle_mask=None, name=None, mask=None, dtype=None):
    """dst[i] = src[shuffle_mask[i]] within 32 partitions; 255 leaves dst[i]."""
    whole_mask(mask, "nc_stream_shuffle")
    rec = record.active()
    first = rec.count
    if not hasattr(shuffle_mask, "__iter__"):
        raise KernelError("nc_stream_shuffle: shuffle_mask is %s, not a list of 32 whole numbers"
                          % insn.said(shuffle_mask))
    entries = tuple(whole(x) for x in shuffle_mask)
    dst, src = need(dst, "dst", "nc_stream_shuffle"), need(src, "src", "nc_stream_shuffle")
    if shares(src.storage, dst.storage) and not same_view(src, dst) and (
            src.storage is not dst.storage or _meet(src, dst)):
        part, src = src, new_tile(src.shape, src.dtype)  # it is read before dst is written
        insn.tensor_copy(src, part)
    rec.emit(_MASK, insn.VECTOR, ((len(entries),) + entries,))
    rec.emit(_SHUFFLE, insn.VECTOR, (dst.words(), src.words()))
    return done(rec, first, name)


def register_alloc(x=None):
    """A new register; it holds x if that is given."""
    r = Register()
    # Its number is taken in the order of the source.
    r.number()
    if x is not None:
        if x.__class__ is Tensor:
            register_load(r, x)
        else:
            register_move(r, x)
    return r


def _writable(dst, call):
    if not isinstance(dst, Register):
        raise KernelError("%s: dst is %r, not a register" % (call, dst))
    if dst.frozen:
        raise AssertionError("%s: the register of a loop counts iterations: it cannot be written"
                             % call)
    return dst.number()


def register_move(dst, src):
    """dst = a whole number or another register."""
    rec, number = record.active(), _writable(dst, "register_move")
    # A float's bits, as they are.
    if isinstance(src, RegisterValue) and src.is_float():
        rec.emit(insn.OP["mov"], -1, ((number,), (1, src.number())))
        dst.writes("float32")
        return
    rec.emit(insn.OP["mov"], -1, ((number,), insn.integer(src, "register_move: src")))
    dst.writes(src.kind if isinstance(src, Register) else "int32")


def register_load(dst, src):
    """dst = the one element of src, in HBM or SBUF."""
    src = need(src, "src", "register_load")
    record.active().emit(insn.OP["tensor_load"], -1, ((_writable(dst, "register_load"),),
                                                      src.words()))
    dst.writes("float32" if src.dtype.float else
               "uint32" if src.dtype.name == "uint32" else "int32")


def register_store(dst, src):
    """The one element of dst = a register or a whole number."""
    rec = record.active()
    dst = need(dst, "dst", "register_store")
    if not isinstance(src, RegisterValue):
        # A number goes by way of a register of its own.
        r = register_alloc(src)
    else:
        r = src
    dst.storage.written = True
    number = r.number() if r.is_float() else insn.plain_register(r)
    # As it is, where the types are of one kind; else converted by a copy.
    if r.is_float() == bool(dst.dtype.float):
        rec.emit(insn.OP["tensor_store"], -1, (dst.words(), (number,)))
        return
    value = new_tile((1, 1), dtypes.find(r.kind if isinstance(r, Register) else "int32"))
    rec.emit(insn.OP["tensor_store"], -1, (value.words(), (number,)))
    insn.assign(dst, value)


def tensor_copy_dynamic_src(*args, **kwargs):
    """Removed from NKI 0.4."""
    raise NotBuilt("nisa.tensor_copy_dynamic_src was removed in NKI 0.4: use "
                   "nisa.tensor_copy with .ap(scalar_offset=...)")


def tensor_copy_dynamic_dst(*args, **kwargs):
    """Removed from NKI 0.4."""
    raise NotBuilt("nisa.tensor_copy_dynamic_dst was removed in NKI 0.4: use "
                   "nisa.tensor_copy with .ap(scalar_offset=...)")


def _pair(name):
    """The recorder of a core that has a second core."""
    rec = record.active()
    # The second core runs another program of the grid.
    if rec.cores > 1:
        return rec
    if rec.gen < 3:
        raise KernelError("nisa.%s needs the two cores of LNC=2, which %s does not have: choose "
                          "trn2 or later, by NEURON_PLATFORM_TARGET_OVERRIDE or platform_target"
                          % (name, rec.target))
    if rec.programs > 1:
        raise NotBuilt("nisa.%s: the %d programs of this launch run one after another on one core, "
                       "so they cannot wait for each other; launch two with [2], and each has a "
                       "core" % (name, rec.programs))
    raise KernelError("nisa.%s needs the two cores of LNC=2: this launch has one" % name)


def sendrecv(src=None, dst=None, send_to_rank=None, recv_from_rank=None, pipe_id=None,
             dma_engine=c.dma_engine.dma, name=None):
    """dst = the other core's src, and its dst = this core's src: tiles in SBUF of the same type,
    with the same number of partitions and elements. Waits until both cores are at a sendrecv of
    that pipe."""
    rec = _pair("sendrecv")
    first = rec.count
    dst, src = need(dst, "dst", "sendrecv"), need(src, "src", "sendrecv")
    for what, rank in (("send_to_rank", send_to_rank), ("recv_from_rank", recv_from_rank)):
        # With two cores the other one is both.
        if number_of(rank, what, "sendrecv") != 1 - rec.core:
            raise KernelError("sendrecv: %s=%d: core %d exchanges with core %d, the other one of "
                              "its logical core" % (what, rank, rec.core, 1 - rec.core))
    pipe = 0 if pipe_id is None else number_of(pipe_id, "pipe_id", "sendrecv")
    by_gpsimd = chosen(_BY_GPSIMD, dma_engine, "dma_engine", "sendrecv")
    dst.storage.written = True
    if by_gpsimd:
        rec.emit(_SWAP_GPSIMD, insn.GPSIMD, (dst.words(), src.words(), (pipe,)))
    else:
        rec.emit(_SWAP, -1, (dst.words(), src.words(), (-1, pipe, 0)))
    return done(rec, first, name)


def core_barrier(data=None, cores=None, engine=c.engine.gpsimd, name=None):
    """What each core has done with `data` is done on both before either continues with it. Does
    nothing on one core."""
    among = {whole(x) for x in cores} if isinstance(cores, (tuple, list)) else {whole(cores)}
    rec = record.active()
    # One core has nobody to wait for.
    if len(among) == 1 or rec.cores == rec.programs == 1:
        return None
    rec = _pair("core_barrier")
    if among != {0, 1}:
        raise KernelError("core_barrier: cores=%s: a logical core has (0, 1)" % insn.said(cores))
    first = rec.count
    data = need(data, "data", "core_barrier")
    rec.emit(_BARRIER, engine_of(engine, "core_barrier"), ((0,), data.words()))
    return done(rec, first, name)
