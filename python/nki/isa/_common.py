"""What the calls of nki.isa share: result tiles of the old style, masks, scheduling handles."""
import inspect
from dataclasses import MISSING
from sys import _getframe

from soma import insn, kernel, ops, record, words
from soma.dtypes import find, known
from soma.errors import KernelError, NotBuilt
from soma.index import Index
from soma.lib import ROLE_INPUT
from soma.native import _soma
from soma.masks import LARGEST, Mask, effective, mask_ranges, pieces
from soma.record import recorders
from soma.tensor import PSUM, SBUF, Storage, Tensor
from soma.under import Masked

from .constants import CMD, ENGINE


def _made_by_fields(cls):
    """Whether the __init__ of a dataclass is the one made from its fields."""
    code = cls.__init__.__code__
    return code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount] == tuple(
        f.name for f in cls.__dataclass_fields__.values() if f.init)


class _ByKeyword(type):
    """Lets a dataclass be made with keywords that name its fields without annotations. Fields that
    are left out are None. A class with an __init__ of its own is made by that."""

    def __call__(cls, *args, **fields):
        known = getattr(cls, "__dataclass_fields__", None)
        if known is None or not fields or not _made_by_fields(cls):
            return super().__call__(*args, **fields)
        other = {n: fields.pop(n) for n in list(fields) if n not in known and hasattr(cls, n)}
        for field in list(known.values())[len(args):]:
            if field.init and field.default is field.default_factory is MISSING:
                fields.setdefault(field.name, None)
        made = super().__call__(*args, **fields)
        for name, value in other.items():
            object.__setattr__(made, name, value)
        return made


class NKIObject(metaclass=_ByKeyword):
    """Base of a kernel's own classes: fields are given by keyword, even if a dataclass has no
    annotations."""

    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)


class NkiInstruction(_soma.Handle):
    """A recorded call: its first and last instruction."""

    __slots__ = ()

    def depends_on(self, *producers):
        """This instruction runs after each of these. Returns itself."""
        rec = record.active()
        for p in producers:
            if p.last >= self.first:
                raise KernelError("depends_on: instruction %d comes after %d"
                                  % (p.last, self.first))
            if not rec.comparing():
                rec.edges.append((p.last, self.first))
        return self


_soma.use(Handle=NkiInstruction)
done = _soma.done  # done(rec, first, name): the handle of a call that begins at number `first`

def one_record(instruction, engine=insn.ANY, conditions=0, optional=(), none_if_0=(), only=(),
               then=None, **fields):
    """Lets the module in C do a function's usual calls, which are one record of that instruction.
    Each field comes from the argument that messages call so (soma.words). fields: another argument;
    with it a dict of its codes; or a number, which it is in all calls; or (kind, argument, word).
    engine: None if the argument `engine` says it. optional: operators that may be left out.
    none_if_0: numbers that 0 leaves out. only: {argument: the one operator that it may be}. then:
    (instruction, engine, argument, argument of its sign or None) that reads sums of rows."""
    def wrap(function):
        at = _arguments(function)
        usual, made, before = words.operands_of(instruction), [], None
        for name, kind in kernel.form(instruction):
            given = fields.get(name, usual.get(name, name))
            argument, codes = given if given.__class__ is tuple and len(given) == 2 else \
                (given, None)
            if codes is None and kind in _CODES:
                codes = _CODES[kind]
            if given.__class__ is tuple and len(given) == 3:
                made.append((given[0], at[given[1]], codes if given[0] == _soma.IF_CODE else None,
                             given[2], False))
            else:
                default = at.get(argument) is not None and function.__defaults__ and \
                    _defaults(function)[at[argument]]
                least = 0 if name in optional else codes[default] if kind == "ENUM" and codes \
                    else -1
                made.append(_field(kind, before, at.get(argument, -1), codes, least, given) +
                            (name in none_if_0,))
            before = kind
        made += [(_soma.ONLY, at[name], ops.usual, insn.ALU[op], False)
                 for name, op in dict(only).items()]
        read = (-1, -1, -1, -1) if then is None else (
            insn.OP[then[0]], then[1], at[then[2]], at.get(then[3], -1))
        return call_of(function, insn.OP[instruction], engine, made, conditions, read)
    return wrap


def _arguments(function):
    """{name: number} of a function's arguments."""
    code = function.__code__
    return {name: i for i, name in enumerate(code.co_varnames[:code.co_argcount])}


def _defaults(function):
    """The defaults of its arguments, ... for those that have none."""
    defaults = function.__defaults__ or ()
    return (...,) * (function.__code__.co_argcount - len(defaults)) + defaults


def call_of(function, op, engine, fields, conditions, read):
    """The function with its usual calls in C. fields: (kind, number of the argument or -1, codes,
    word, whether 0 is none) of each; read: a second record, as the module has it."""
    inner = inspect.unwrap(function)
    at = _arguments(inner)
    return _soma.Call(function, tuple(at), _defaults(inner), op,
                      -1 if engine is None else engine, tuple(fields), ENGINE, known,
                      (at.get("name", -1), at.get("mask", -1), at.get("dtype", -1),
                       at["engine"] if engine is None else -1), conditions, read)


_CODES = {"ALU": ops.usual, "ACTF": ops.functions}
_KINDS = {"STEPS": _soma.STEPS, "INT": _soma.OFFSET, "I32": _soma.WHOLE}


def _field(kind, before, i, codes, left_out, given):
    """(kind, number of the argument or -1, codes, word) of a field, as the module takes it."""
    if kind == "AP":
        return _soma.VIEW, i, None, 0
    if i < 0:  # no argument gives it
        return _soma.WORD, -1, None, given if given.__class__ is int else -(kind == "QUEUE")
    if kind == "NUM":
        return _soma.IMMEDIATE if before == "ALU" else _soma.NUMBER, i, None, 0
    if kind in _KINDS:
        return _KINDS[kind], i, None, 0
    return (_soma.FLAG, i, None, 0) if codes is None else (_soma.CODE, i, codes, left_out)


# What the older reference lists without a dst.
_RETURNS = frozenset(
    "activation activation_reduce affine_select bn_aggr bn_stats dma_transpose dropout iota "
    "local_gather max8 memset nc_find_index8 nc_match_replace8 nc_matmul nc_transpose range_select "
    "reciprocal scalar_tensor_tensor tensor_copy tensor_partition_reduce tensor_reduce "
    "tensor_scalar tensor_scalar_reduce tensor_tensor tensor_tensor_scan".split())


def _tell_older(rec):
    call = _getframe(1).f_code.co_name
    if call in _RETURNS:
        rec.told[rec.where()] = "%s of neuronxcc.nki has no dst, it returns a tile: the " \
            "vendor's compiler refuses this call; nki has dst" % call


def new_tile(shape, dtype, memory=SBUF, name=""):
    """A tile of any shape; dimension 0 is the partitions."""
    rec = recorders[0]
    at = rec.where()
    name = name or (rec.variable(at) if at in rec.several else "")
    site = rec.sites.get(at)
    if shape.__class__ is not tuple:
        shape = tuple(shape)
    if site is not None and site.asked == (shape, dtype, memory, name):
        return site.tile(rec)
    variable = name or rec.variable(at)
    asked = shape, dtype, memory, variable if at in rec.several else name
    if len(shape) == 1:
        shape += (1,)
    if not 1 <= shape[0] <= 128:
        raise KernelError("a tile of %d partitions (shape %s): there are 128; dimension 0 is the "
                          "partitions" % (shape[0], list(shape)))
    s = Storage(memory, dtype, shape, variable, MEMORY_REGION[memory], at)
    site = s.site.repeats(asked, s)
    rec.keep_site(at, site, at not in rec.several)
    return site.tile(rec)


FREE_DIMENSIONS = 4  # of an elementwise instruction


def in_parts(emit, *tensors):
    """emit(*tensors), for tiles of one shape: once, or for each part if a tile has more free
    dimensions than an instruction takes."""
    shape = tensors[0].shape
    if len(shape) <= FREE_DIMENSIONS + 1 or any(t.shape != shape for t in tensors) or \
            all(t.free_dims() <= FREE_DIMENSIONS for t in tensors):
        emit(*tensors)
        return
    n, axis = min((n, a) for a, n in enumerate(shape) if a and n > 1)
    for i in range(n):
        in_parts(emit, *[t.cropped({axis: (i, i + 1)}) for t in tensors])


MEMORY_REGION = {}  # filled by nki.language


class _Absent:
    """An operand that a call does not name, as in the older style. None is one that is wrong."""

    __slots__ = ()

    def __repr__(self):
        return "None"


absent = _Absent()


def need(x, what, call):
    """x, which must be a tile or tensor."""
    if x.__class__ is not Tensor:
        if hasattr(x, "as_tensor"):
            return x.as_tensor()
        record.active()  # outside of a kernel, that is the error
        raise KernelError("%s: %s is %s, not a tensor"
                          % (call, what, "None" if x is None else type(x).__name__))
    return x


def number_of(x, what, call):
    """x, which must be a whole number."""
    k = insn.whole(x)
    if k is None:
        raise KernelError("%s: %s is %s, not a whole number" % (call, what, insn.said(x)))
    return k


def engine_of(e, call):
    """Number of an engine argument."""
    try:
        return ENGINE[e]
    except (KeyError, TypeError):
        raise KernelError("%s: engine=%r is not an engine" % (call, e)) from None


def chosen(table, value, what, call):
    """table[value] of an argument that is one of an enumeration."""
    try:
        return table[value]
    except (KeyError, TypeError):
        names = [getattr(v, "name", str(v)) for v in table if v is not None]
        raise KernelError("%s: %s=%s: there are %s" % (call, what, insn.said(value),
                                                       ", ".join(names))) from None


def cmd_of(reduce_cmd, call):
    """Code of a reduce_cmd."""
    return chosen(CMD, reduce_cmd, "reduce_cmd", call)


def crop(mask, call, *tensors):
    """The tensors cut to a mask, or None if nothing is left."""
    if mask is None or mask is True:
        return tensors
    ranges, rest, empty = mask_ranges(mask)
    if rest:
        raise NotBuilt("%s: mask %s bounds several axes at once; join bounds of one axis each by "
                       "`&`, or use nisa.affine_select, which takes one of several"
                       % (call, rest[0].text))
    return None if empty else _cut(ranges, tensors)


def _cut(ranges, operands):
    return [t.cropped(ranges) if t.__class__ is Tensor else t for t in operands]


PIECES = 8  # transfers that a mask over several axes is cut into


# What emit() under a mask is: element by element, so that it can be of a part; the same by DMA,
# which begins at any partition; all or nothing, as places in its operands count; one result for
# each row of its first operand.
EACH, DMA, WHOLE, ROWS = "each", "dma", "whole", "rows"


def masked(mask, call, emit, how=None):
    """emit(dst, operands...) for what a mask leaves."""
    if mask is None or mask is True:
        return emit
    ranges, rest, _ = mask_ranges(mask)
    if how == WHOLE:
        return _copied(emit, mask, call)
    if how == ROWS:
        return _by_rows(emit, mask, call)
    if rest and how == DMA:
        return _in_boxes(emit, ranges, rest, call)
    if rest and how == EACH:
        return lambda *operands: _selected(emit, ranges, rest, call, _cut(ranges, operands))

    def cut(*operands, **more):
        parts = crop(mask, call, *operands)
        if parts is not None:
            emit(*parts, **more)
    return cut


def _copied(emit, mask, call):
    """emit() into a new tile, of which dst takes what the mask leaves."""
    def cut(dst, *operands):
        if mask_ranges(mask)[2]:
            return
        into = new_tile(dst.shape, dst.dtype)
        emit(into, *operands)
        masked(mask, call, insn.tensor_copy, EACH)(dst, into)
    return cut


def _by_rows(emit, mask, call):
    """emit(dst, data, ...), of which the mask's axes are those of data."""
    def cut(dst, data, *others):
        part = crop(mask, call, data)
        if part is not None:
            rows = {a: r for a, r in mask_ranges(mask)[0].items() if a == 0}
            dst, *others = _cut(rows, (dst,) + others)
            emit(dst, *part, *others)
    return cut


def whole_mask(mask, call):
    """Refuses a mask that leaves out something, for a call that has none."""
    ranges, rest, empty = mask_ranges(mask)
    if rest or empty or any(r != (0, mask.size[a]) for a, r in ranges.items()):
        raise NotBuilt("%s: mask=%s leaves out a part: give the call that part of its operands"
                       % (call, mask))


def _in_boxes(emit, ranges, rest, call):
    """emit() for each box of what a mask over several axes leaves, or, if they are many and all of
    the elements exist and are written, for a new tile of which dst takes them."""
    def cut(*operands):
        boxes = pieces(ranges, rest, PIECES)
        if boxes is None:
            all_of_it = _cut(ranges, operands)
            if operands[0].storage.memory and all(
                    t.inside() and t.storage.role == ROLE_INPUT for t in all_of_it[1:]):
                return _selected(emit, ranges, rest, call, all_of_it)
            boxes = pieces(ranges, rest, LARGEST)
        if boxes is None:
            raise NotBuilt("%s: mask %s: it is too large to look at" % (call, rest[0].text))
        for box in boxes:
            emit(*_cut(box, operands))
    return cut


def _selected(emit, ranges, rest, call, operands):
    """emit() into a new tile, of which dst takes what the terms of a mask over several axes
    leave."""
    from ._elementwise import emit_predicated
    dst = operands[0]
    keep = mask_tile(ranges, rest, dst.shape, call)
    into = new_tile(dst.shape, dst.dtype)
    emit(into, *operands[1:])
    emit_predicated(dst, into, keep)


def mask_tile(ranges, rest, shape, call):
    """A uint8 tile of that shape, cut to the ranges, which is 1 where all terms hold."""
    from ._gpsimd import affine, emit_affine
    if any(t.ndim != len(shape) or
           any(shape[a] != max(0, hi - lo) for a, (lo, hi) in _extent(ranges, t)) for t in rest):
        raise NotBuilt("%s: mask %s over the axes of a tile of shape %s" % (call, rest[0].text,
                                                                        list(shape)))
    ones = new_tile(shape, find("uint8"))
    insn.memset(ones, 1)
    for t in rest:
        const = t.const + sum(t.coef[a] * lo for a, (lo, _) in ranges.items())
        emit_affine(ones, ones, 0.0, *affine(Index(t.coef, t.size, const, t.said), shape),
                    insn.ALU["is_ge"])
    return ones


def _extent(ranges, t):
    return [(a, ranges.get(a, (0, t.size[a]))) for a in t.varies]


def clear_outside(tile, mask):
    """Zeroes the part of a new tile that a mask leaves out, since later instructions may read all
    of it; for the checks it stays unwritten."""
    ranges, rest, empty = mask_ranges(mask)
    if empty or rest:
        insn.memset(tile, 0, filler=1)
        return
    for axis, (lo, hi) in ranges.items():
        if axis >= len(tile.shape) or (lo == 0 and hi >= tile.shape[axis]):
            continue
        if axis == 0:
            insn.memset(tile, 0, filler=1)
            return
        if lo:
            insn.memset(tile.cropped({axis: (0, lo)}), 0, filler=1)
        if hi < tile.shape[axis]:
            insn.memset(tile.cropped({axis: (hi, tile.shape[axis])}), 0, filler=1)


def apart(x, mask):
    """(t, mask) of t[a mask] beside a call's own mask."""
    if x.__class__ is not Masked:
        return x, mask
    return x.tensor, x.mask if mask is None else x.mask & mask


def returned(shape, dtype, emit, operands, memory=SBUF, mask=None, call="", matmul=False,
             multi=False, how=None):
    """The old style: a tile that emit(dst, *operands) will fill, unless `x[...] = tile` lets its
    instructions write x. multi: dst is written before all operands have been read. how: as in
    masked()."""
    rec = recorders[0]
    tile = rec.again(shape, dtype, memory)
    if tile is None:
        tile = new_tile(shape, dtype, memory)
    if mask is not None:
        shapes = [shape] + [t.shape for t in operands if t.__class__ is Tensor]
        if mask.__class__ is not Mask or not mask.leaves_all(*shapes):
            _check_axes(mask, shape, call)
            if effective(mask, *shapes) is not None:
                emit = _clearing(masked(mask, call, emit, how), tile, mask)
                tile.storage.left = masked(mask, call, insn.assign, EACH)
    return rec.hold((emit, tile, operands, matmul, multi))


def _check_axes(mask, shape, call):
    """Refuses a mask whose axes are not the result's, unless it holds everywhere."""
    sizes = mask.size if mask.__class__ is Mask else ()
    other = any(n > 1 for n in sizes[len(shape):]) or any(1 < n < m for n, m in zip(sizes, shape))
    if other and effective(mask, tuple(sizes)) is not None:
        raise KernelError("%s: the mask has axes of sizes %s, and the result the shape %s: reshape "
                          "the operands to the mask's dimensions"
                          % (call, list(sizes), list(shape)))


def staged(emit):
    """emit(dst, *operands) with copies in SBUF of the operands that lie in PSUM, where the
    instruction does not read. In the old style the compiler sees to that."""
    def emit_staged(dst, *operands):
        emit(dst, *[insn.in_sbuf(t) if t.__class__ is Tensor and t.storage.memory == PSUM else t
                    for t in operands])
    return emit_staged


def one_in_sbuf(emit):
    """emit(dst, a, ..., b) whose a and b must not both lie in PSUM: then b is copied."""
    def emit_one(dst, *operands):
        a, b = operands[0], operands[-1]
        emit(dst, *operands[:-1], insn.in_sbuf(b) if a.memory == b.memory == PSUM else b)
    return emit_one


def _clearing(cut, tile, mask):
    """cut(dst, *operands), which writes what a mask leaves; the rest of the new tile is zeroed."""
    def clearing(dst, *operands, **more):
        if dst is tile:
            clear_outside(tile, mask)
        elif dst.shape != tile.shape:
            dst = dst.reshape(tile.shape)  # whose axes the mask's are
        cut(dst, *operands, **more)
    return clearing


def shift(values):
    """The arguments of a call in the old style, whose positions are those of the new style without
    dst: values that were given by position move one to the right."""
    n = 0
    while n < len(values) and values[n] is not None and values[n] is not False:
        n += 1
    return [None] + list(values[:n]) + list(values[n + 1:])


record.Recorder.masked, record.Recorder._tell_older = staticmethod(masked), _tell_older

__all__ = ["DMA", "EACH", "FREE_DIMENSIONS", "KernelError", "Masked", "NKIObject", "NkiInstruction",
           "NotBuilt", "PSUM", "ROWS", "SBUF", "Tensor", "WHOLE", "apart", "call_of", "chosen",
           "clear_outside", "cmd_of", "crop", "done", "engine_of", "in_parts", "insn", "mask_tile",
           "masked", "need", "new_tile", "number_of", "one_in_sbuf", "one_record", "record",
           "recorders", "returned", "shift", "staged", "whole_mask"]
