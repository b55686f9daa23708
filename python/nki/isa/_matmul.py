"""The tensor engine: matmuls, transposes, MX matmuls; transposes on vector."""
import numpy as np

from soma import dtypes
from soma import kernel as K
from soma.checked import whole
from soma.masks import Ranges, effective, mask_ranges
from soma.native import _soma

from . import constants as c
from ._common import (PSUM, SBUF, KernelError, Masked, NotBuilt, Tensor, absent, apart, call_of,
                      done, engine_of, insn, masked, need, new_tile, record, recorders, returned)

_LOAD, _MATMUL = insn.OP["ldweights"], insn.OP["matmul"]
_LOADX, _MATMULX = insn.OP["ldweights_mx"], insn.OP["matmul_mx"]
_TRANSPOSE32 = insn.OP["transpose32"]
_WRITE, _ADD = insn.ACC.get("write", 1), insn.ACC.get("add", 2)
_DOUBLE_ROW = insn.PERF.get("double_row", 1)
BLOCK = 32  # rows and columns of what vector transposes at a time


def _perf(mode):
    if mode is c.matmul_perf_mode.none or mode is None or mode == "none":
        return 0
    name = mode if isinstance(mode, str) else getattr(mode, "value", None)
    if not isinstance(name, str) or not name.startswith("double_row"):
        raise KernelError("nc_matmul: perf_mode=%s: the machine has only double_row"
                          % (name or insn.said(mode)))
    return _DOUBLE_ROW


def _tiling(position, size):
    if not size and not position:
        return 0, 0, 0, 0
    if not size or not position:
        raise KernelError("nc_matmul: tile_position and tile_size must be given together")
    return tuple(whole(x) for x in tuple(position) + tuple(size))


def _sum_flags(dst, accumulate):
    """(words of dst, acc, flags of the record) of a matmul; the first one in a tile of zeros in
    PSUM writes, with accumulate=True too."""
    zero = dst.storage.zero
    if accumulate is None and zero is None and recorders[0].loops:
        recorders[0].sums_in_while(dst.storage)
    if zero is not None and zero.needed(dst, accumulate):
        zero.settle()
        zero = None
    if zero is None:
        words, first = dst.words(), False
    else:
        dst.storage.zero = None  # else words() would write the zeros
        words, first = dst.words(), zero.start(dst)
        dst.storage.zero = zero
    if accumulate is None:
        return (words, _WRITE, 0) if first else (words, 0, K.ACCUMULATE)
    return words, _ADD if accumulate and not (first and not zero.adds) else _WRITE, 0


def emit_matmul(dst, stationary, moving, accumulate=None, transpose=0, onezero=(0, 0), perf=0,
                tiling=(0, 0, 0, 0)):
    """ldweights, unless the same weights were just used, and matmul."""
    rec = recorders[0]
    if rec.pending is not None:
        rec.flush()
    if stationary.shape[0] != moving.shape[0]:
        raise KernelError("nc_matmul: stationary has %d partitions, moving %d: they are summed "
                          "over, so both need the same number"
                          % (stationary.shape[0], moving.shape[0]))
    # With double rows the order of free dimensions says which are paired, so that they are not
    # merged.
    fixed = stationary.exact_words() if perf else stationary.words()
    weights = fixed + K.pack((transpose, onezero[0], perf) + tiling)
    # The array keeps the weights until others are loaded; what came between may have changed
    # the tile.
    if rec.weights != weights or rec.weights_at != rec.count:
        rec.emit(_LOAD, 0, (weights,))
    words, acc, flags = _sum_flags(dst, accumulate)
    columns = stationary.shape[-1] if perf else stationary.free_size
    if dst.shape[0] != columns:
        raise KernelError("nc_matmul dst: %d partitions: stationary has %d columns, and each gives "
                          "one" % (dst.shape[0], columns))
    moved = moving.exact_words() if perf else moving.words()
    rec.emit(_MATMUL, 0, (words, moved, (acc, 0, transpose, onezero[1], perf),
                          tiling), flags)
    rec.weights, rec.weights_at = weights, rec.count


_soma.use(matmul=emit_matmul, single=dtypes.float32)


def _in_c(function):
    """The module in C does its usual calls, see matmul.c."""
    names = ("dst", "stationary", "moving", "is_transpose", "is_stationary_onezero",
             "is_moving_onezero", "accumulate")
    at = function.__code__.co_varnames
    sums = {None: -1, False: _WRITE, True: _ADD}
    fields = [(_soma.VIEW if i < 3 else _soma.FLAG if i < 6 else _soma.CODE, at.index(name),
               sums if i == 6 else None, -1, False) for i, name in enumerate(names)]
    return call_of(function, _MATMUL, 0, fields, _soma.INTO | _soma.MATMUL, (_LOAD, 0, -1, -1))


@_in_c
def nc_matmul(dst=None, stationary=None, moving=absent, is_stationary_onezero=False,
              is_moving_onezero=False, is_transpose=False, accumulate=None, tile_position=(),
              tile_size=(), perf_mode=c.matmul_perf_mode.none, name=None, mask=None, dtype=None):
    """dst[M, N] (+)= stationary[K, M].T @ moving[K, N], dst in PSUM, the others in SBUF.
    accumulate: False writes, True adds, None first writes and then adds."""
    if moving.__class__ is not Tensor:
        # The old style is (stationary, moving).
        if moving is absent:
            dst, stationary, moving = None, dst if dst is not None else stationary, \
                stationary if dst is not None else moving
        if moving.__class__ is not Masked:
            moving = need(moving, "moving", "nc_matmul")
    # Masks of operands become bounds of their axes.
    stationary, moving, part = of_parts(stationary, moving, True)
    stationary = need(stationary, "stationary", "nc_matmul")
    perf, tiling = _perf(perf_mode), _tiling(tile_position, tile_size)
    transpose = 1 if is_transpose else 0
    onezero = (int(bool(is_stationary_onezero)), int(bool(is_moving_onezero)))

    def emit(d, s, m, accumulate=accumulate, add=False):
        emit_matmul(d, s, m, None if add else accumulate, transpose, onezero, perf, tiling)
    if dst is None:
        def old(d, s, m, add=False):
            # The old style takes operands in PSUM, too.
            s, m = insn.in_sbuf(s), insn.in_sbuf(m)
            emit(d, s, m, False if accumulate is None else accumulate, add)
        mask, stationary, moving, part = summed(mask, stationary, moving, part, "nc_matmul")
        rows = stationary.shape[-1] if perf else stationary.free_size
        free = moving.shape[2:] if perf else moving.shape[1:]
        # A transpose keeps its type from trn2 on.
        out = dtypes.find(dtype) if dtype is not None else \
            moving.dtype if transpose and record.active().gen > 2 else dtypes.float32
        into = Part(old, part)
        tile = returned((rows,) + tuple(free), out, into or old, (stationary, moving), PSUM, mask,
                        "nc_matmul", matmul=True)
        into.tile = tile
        return tile
    rec = record.active()
    first = rec.count
    mask, stationary, moving, part = summed(mask, stationary, moving, part, "nc_matmul")
    if mask is None:
        (Part(emit, part) or emit)(need(dst, "dst", "nc_matmul"), stationary, moving)
    return done(rec, first, name)


def of_parts(x, y, transposed):
    """(x, y, ranges) of operands of which one or both may be t[a mask]: the ranges of x, y and the
    result that the masks leave, or None."""
    (x, mask), (y, other) = apart(x, None), apart(y, None)
    if mask is None is other:
        return x, y, None
    found = [mask_ranges(m) for m in (mask, other)]
    if any(rest or empty for _, rest, empty in found):
        raise NotBuilt("a matmul of a tile under the mask %s: a mask of an operand bounds single "
                       "axes" % mask)
    (a, _, _), (b, _, _) = found
    # The axis that is summed over, and the other one of x.
    k, m = (0, 1) if transposed else (1, 0)
    # What is summed over is what both leave.
    both = [r for r in (a.get(k), b.get(0)) if r]
    inner = (max(lo for lo, _ in both), min(hi for _, hi in both)) if both else None

    def named(**ranges):
        return {int(axis[1:]): r for axis, r in ranges.items() if r}
    return x, y, (named(**{"_%d" % k: inner, "_%d" % m: a.get(m)}), named(_0=inner, _1=b.get(1)),
                  named(_0=a.get(m), _1=b.get(1)))


class Part:
    """emit() of a matmul for the parts of its operands that masks leave; the rest of the new tile
    is zero. False if there are none."""

    def __init__(self, emit, ranges):
        self.emit, self.ranges, self.tile = emit, ranges, None

    def __bool__(self):
        return self.ranges is not None

    def __call__(self, d, x, y, **more):
        if d is self.tile:
            insn.memset(d, 0)
        of_x, of_y, of_d = self.ranges
        self.emit(d.cropped(of_d), x.cropped(of_x), y.cropped(of_y), **more)


def summed(mask, stationary, moving, part, call):
    """(None, the operands that a mask leaves, what of_parts gives), or (False, ...) if it leaves
    nothing. A mask of the first axis is of the partitions of both, which are summed over; one of
    the second is of moving's elements, if its size says so."""
    if mask is None or mask is True:
        return None, stationary, moving, part
    ranges, rest, empty = mask_ranges(mask)
    if empty:
        return False, stationary, moving, part
    # Axes that the mask bounds at all.
    cut = {a for a, (lo, hi) in ranges.items() for t in (stationary, moving)
           if lo or (a < t.ndim and hi < t.shape[a])}
    # Only if the sizes tell which operand it is of.
    of_moving = 1 in cut and part is None and stationary.ndim == moving.ndim == 2 and \
        mask.size[1] == moving.shape[1] != stationary.shape[1]
    if rest or cut - ({0, 1} if of_moving else {0}) or \
            (0 in cut and mask.size[0] != stationary.shape[0]):
        raise NotBuilt("%s: mask %s: it may bound the partitions of both operands, or the elements "
                       "of moving, which are not as many as those of stationary; give the call "
                       "parts of them for other bounds" % (call, mask))
    # Rows of the result are of stationary, columns of moving.
    if of_moving:
        part = {}, {1: ranges[1]}, {1: ranges[1]}
    ranges = {a: r for a, r in ranges.items() if a == 0}
    return None, stationary.cropped(ranges), moving.cropped(ranges), part


def nc_matmul_mx(dst, stationary, moving, stationary_scale, moving_scale, tile_position=None,
                 tile_size=None, accumulate=None, name=None):
    """dst (+)= (stationary x4 * its scales).T @ (moving x4 * its scales). From trn3."""
    rec = record.active()
    first = rec.count
    row, _, rows, _ = _tiling(tile_position or (), tile_size or ())
    for x, what in ((dst, "dst"), (stationary, "stationary"), (moving, "moving"),
                    (stationary_scale, "stationary_scale"), (moving_scale, "moving_scale")):
        need(x, what, "nc_matmul_mx")
    rec.emit(_LOADX, 0, (stationary.words(), stationary_scale.words(), (row, rows)))
    words, acc, flags = _sum_flags(dst, accumulate)
    rec.emit(_MATMULX, 0, (words, moving.words(), moving_scale.words(), (acc, 0, row, rows)), flags)
    # The array has other weights now.
    rec.weights = None
    return done(rec, first, name)


def constant_tile(rec, key, make):
    """What make() gives, a tile that nothing changes: made once in a kernel, but in each round of a
    loop at run time."""
    # In a loop at run time a tile of an earlier round may not be there.
    if key not in rec.identities or rec.loops:
        # What is held back stays so while the tile is made.
        pending, rec.pending = rec.pending, None
        tile = make()
        rec.pending = pending
        if rec.loops:
            return tile
        rec.identities[key] = tile
    return rec.identities[key]


def _identity(dtype):
    # The bits of 1 in each type; of integers 1 itself.
    host = np.zeros((128, 128), "u%d" % dtype.size)
    one = {"float32": 0x3F800000, "tfloat32": 0x3F800000, "bfloat16": 0x3F80,
           "float16": 0x3C00, "float8_e4m3": 0x38, "float8_e4m3fn": 0x38, "float8_e5m2": 0x3C,
           "float8_e3m4": 0x30}.get(dtype.name, 1)
    np.fill_diagonal(host, one)
    tile = new_tile((128, 128), dtype, name="identity_" + dtype.name)
    insn.dma_copy(tile, insn.constant(host, dtype))
    return tile


def identity(n, dtype):
    """An identity matrix of n x n in SBUF, loaded once for each type."""
    return constant_tile(record.active(), dtype.name, lambda: _identity(dtype))[0:n, 0:n]


# Integers move through the tensor engine as the floats of their width.
_AS_FLOAT = {"int32": "float32", "uint32": "float32", "int16": "bfloat16", "uint16": "bfloat16"}


def turn(dst, data):
    """dst[F, P] = data[P, F] transposed by the tensor engine; errors are of nc_matmul."""
    rec = record.active()
    name = _AS_FLOAT.get(data.dtype.name)
    if name and rec.gen > 2:
        data = data.view(name)
        dst = dst.view(name) if dst.dtype.size == data.dtype.size else dst
    # A matmul that moves its operand unchanged.
    emit_matmul(dst, data, identity(data.shape[0], data.dtype), accumulate=False, transpose=1)


def emit_transpose(dst, data):
    """The same, with errors of nc_transpose."""
    # Larger data has its own message below.
    if data.free_size <= 128:
        _needs_transposed(dst, data)
    try:
        turn(dst, data)
    except KernelError as error:
        # The user has called another function.
        for words, others in (("nc_matmul stationary", "nc_transpose data"),
                              ("nc_matmul", "nc_transpose"), ("the stationary operand", "it")):
            error.put(words, others)
        raise


def old_transpose(dst, data):
    """dst[F, P] = data[P, F] by the tensor engine for data in PSUM and of 8 bits, too."""
    data = insn.in_sbuf(data)
    if data.dtype.size == 1:  # whose transpose has elements of 2 bytes
        wide = new_tile(data.shape, dtypes.bfloat16)
        insn.tensor_copy(wide, data)
        data = wide
    into = dst
    # The tensor engine writes PSUM alone, from trn2 on in the type of its operand.
    if dst.memory != PSUM or (dst.dtype is not data.dtype and record.active().gen > 2):
        into = new_tile((data.free_size, data.shape[0]),
                        data.dtype if record.active().gen > 2 else dtypes.float32, PSUM)
    emit_transpose(into, data)
    if into is not dst:
        insn.tensor_copy(dst, into)


def emit_transpose32(dst, data):
    """dst[F, P] = data[P, F] transposed by vector, in blocks of 32 x 32 if it is larger."""
    parts, free = data.shape[0], data.free_size
    _needs_transposed(dst, data)
    if parts <= BLOCK and free <= BLOCK:
        record.active().emit(_TRANSPOSE32, insn.VECTOR, (dst.words(), data.words()))
        return
    # Blocks begin at partitions that an engine reaches.
    data, into = insn.reachable(_flat(data)), dst
    if dst.dtype is not data.dtype or dst.ndim > 2 or not insn.starts_well(dst):
        into = new_tile((free, parts), data.dtype)
    for p in range(0, parts, BLOCK):
        rows = slice(p, min(p + BLOCK, parts))
        for f in range(0, free, BLOCK):
            columns = slice(f, min(f + BLOCK, free))
            record.active().emit(_TRANSPOSE32, insn.VECTOR, (into[columns, rows].words(),
                                                             data[rows, columns].words()))
    if into is not dst:
        insn.assign(dst, into)


def _needs_transposed(dst, data):
    """Refuses a dst that has not the shape of data's transpose."""
    if (dst.shape[0], dst.free_size) != (data.free_size, data.shape[0]):
        raise KernelError("nc_transpose dst: %d x %d: the transpose of data is %d x %d"
                          % (dst.shape[0], dst.free_size, data.free_size, data.shape[0]))


def _flat(t):
    """A tile with one free dimension; a copy if its elements do not lie so."""
    # A reshape of them would need a copy as well.
    if t.ndim > 2 and not t.is_contiguous():
        copy = new_tile(t.shape, t.dtype)
        insn.tensor_copy(copy, t)
        t = copy
    return t if t.ndim == 2 else t.reshape((t.shape[0], t.free_size))


def turned(mask, data, call):
    """(ranges of data's two axes, the same exchanged, whether nothing is left) of a mask, or None
    if it leaves out nothing."""
    if mask is None or effective(mask, data.shape) is None:
        return None
    ranges, rest, empty = mask_ranges(mask)
    if rest or data.ndim > 2:
        raise NotBuilt("%s: mask %s of %r: it takes two dimensions, and a bound of each of them "
                       "joined by `&`" % (call, mask, data))
    return ranges, {1 - a: r for a, r in ranges.items()}, empty


def returned_transpose(data, dtype, emit, memory, mask, call, multi=False):
    """The old style: a tile with the transpose of data. The mask is over data's axes; what it
    leaves out is zero."""
    shape, left = (data.size // data.shape[0], data.shape[0]), turned(mask, data, call)
    made = []

    def cut(d, s):
        ranges, exchanged, empty = left
        # Only in a new tile; in the user's, the rest stays.
        if d is made[0]:
            insn.memset(d, 0)
        if not empty:
            emit(d.cropped(exchanged), s.cropped(ranges))
    tile = returned(shape, dtype, cut if left else emit, (data,), memory, call=call, multi=multi)
    if left:
        made.append(tile)
        # An assignment of the tile leaves what the mask leaves out.
        tile.storage.left = masked(Ranges((left[1], [], left[2])), call, insn.assign)
    return tile


def nc_transpose(dst=None, data=absent, engine=c.engine.unknown, name=None, mask=None, dtype=None):
    """dst[F, P] = data[P, F]: on tensor into PSUM, up to 128 x 128; on vector up to 32 x 32, in the
    old style up to 128 x 128."""
    if data.__class__ is not Tensor:
        if data.__class__ is c.engine:
            engine, data = data, absent
        dst, data = (None, dst) if data is absent else (dst, data)
        data = need(data, "data", "nc_transpose")
    small = data.shape[0] <= BLOCK and data.free_size <= BLOCK
    if dst is None:
        vector = engine is c.engine.vector
        out = dtypes.find(dtype) if dtype is not None else data.dtype
        # trn1's tensor engine writes float32.
        if not vector and record.active().gen == 2:
            out = dtypes.float32
        return returned_transpose(data, out, emit_transpose32 if vector else old_transpose,
                                  SBUF if vector else PSUM, mask, "nc_transpose", not small)
    dst = need(dst, "dst", "nc_transpose")
    e = engine_of(engine, "nc_transpose")
    # Unknown: tensor into PSUM, else vector.
    if e == -1:
        e = insn.TENSOR if dst.memory == PSUM and (data.memory == SBUF or not
                                                   small) else insn.VECTOR
    if e != insn.TENSOR and not small:
        raise KernelError("nc_transpose: data of %d x %d: vector transposes at most %d x %d; "
                          "tensor 128 x 128, from sbuf into psum"
                          % (data.shape[0], data.free_size, BLOCK, BLOCK))
    rec = record.active()
    first = rec.count
    emit = emit_transpose if e == insn.TENSOR else emit_transpose32
    left = turned(mask, data, "nc_transpose")
    if left:
        dst, data = dst.cropped(left[1]), data.cropped(left[0])
    if not left or not left[2]:
        emit(dst, data)
    return done(rec, first, name)
