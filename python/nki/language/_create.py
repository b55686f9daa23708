"""Creating tensors: memory, constants, filled tiles."""
import itertools

import numpy as np

from soma import insn, record
from soma import lib as L
from soma.blocks import Blocks, ParDim
from soma.checked import between, whole
from soma.dtypes import find, float32, uint8
from soma.errors import KernelError
from soma.native import _soma
from soma.record import recorders
from soma.tensor import HBM, PSUM, SBUF, Storage, Tensor
from soma.views import dense
from soma.zeros import ZeroState

from ..isa._common import call_of, need, new_tile, number_of
from ..isa._matmul import identity
from ._types import memory_of, psum, region, sbuf, shared_hbm


def par_dim(n):
    """Marks the partition dimension of a shape; dimensions before it make buffers of their own."""
    k = whole(n)
    if k is None:
        raise KernelError("par_dim(%s): a size is a whole number" % insn.said(n))
    return ParDim(k)


def _sizes(shape):
    shape = shape if isinstance(shape, (tuple, list)) else (shape,)
    out = []
    for n in shape:
        k = n if n.__class__ is int else whole(n)
        if k is None or k < 1:
            raise KernelError("shape %s: sizes must be whole numbers, 1 or more" % (list(shape),))
        out.append(k)
    return out


def _usual(shape):
    """Whether a shape is that of one tile: plain sizes, and at least two dimensions."""
    if shape.__class__ is not tuple or len(shape) < 2:
        return False
    for n in shape:
        if n.__class__ is not int or n < 1:
            return False
    return shape[0] <= 128


def _placed(address):
    """address= as (start partition, byte offset); the builder knows how far a memory reaches."""
    if not isinstance(address, (tuple, list)) or len(address) != 2:
        raise KernelError("address=%s: it must be (start partition, byte offset)"
                          % insn.said(address))
    return (between(address[0], 0, 127, "the start partition of address=%s" % insn.said(address)),
            between(address[1], 0, (1 << 31) - 1, "the byte offset of address=%s"
                    % insn.said(address)))


def _par_dim_of(shape):
    """The number of the dimension that is the partitions."""
    if isinstance(shape, (tuple, list)):
        for i, n in enumerate(shape):
            if n.__class__ is ParDim:
                return i
    return 0


def ndarray(shape, dtype=float32, buffer=None, name="", address=None, memory=None):
    """Memory of a shape and type, not initialised: in SBUF (the default), PSUM or HBM. address is
    (start partition, byte offset); memory is another name of buffer."""
    rec = recorders[0]
    at = rec.where()
    if at in rec.unnamed and not name:
        at = rec.caller(at)
    if at in rec.several and not name:
        name = rec.variable(at)
    if shape.__class__ is tuple and address is None and memory is None:
        asked = shape, dtype, buffer, name
        site = rec.sites.get(at)
        if site is not None and site.asked == asked and (shape is site.asked[0] or _usual(shape)):
            return site.tile(rec)
        if not name and rec.at is None and not rec.variable(at):
            at = rec.caller(at)
        if (buffer is sbuf or buffer is psum) and name.__class__ is str and _usual(shape):
            variable = name or rec.variable(at)
            s = Storage(SBUF if buffer is sbuf else PSUM, find(dtype), shape, variable, buffer, at)
            if at in rec.several:
                asked = shape, dtype, buffer, variable
            site = s.site.repeats(asked, s)
            rec.keep_site(at, site, at not in rec.several and at not in rec.unnamed)
            return site.tile(rec)
    buffer = memory if buffer is None else buffer
    buffer = sbuf if buffer is None else buffer
    dtype = find(dtype)
    allocator = buffer if hasattr(buffer, "place") else None
    where = allocator.region if allocator else region(buffer)
    memory = memory_of(where)
    sizes = _sizes(shape)
    if name and not isinstance(name, str):
        raise KernelError("name=%s is not a string" % insn.said(name))
    name = name or rec.variable(at)
    if memory == HBM:
        if address is not None:
            raise KernelError("address=%s: tensors in %s have none, only tiles in sbuf and psum"
                              % (insn.said(address), where.name))
        return _in_hbm(rec, sizes, dtype, where, name, at)
    if not sizes:
        raise KernelError("a tile of no dimensions in %s: dimension 0 is the partitions, so one "
                          "element is (1, 1)" % where.name)
    lead = _par_dim_of(shape)
    inner = sizes[lead:]
    if len(inner) == 1:
        inner.append(1)
    if inner[0] > 128:
        raise KernelError("%s in %s with %d partitions: there are 128; dimension 0, or the one "
                          "marked by par_dim, is the partitions"
                          % (list(sizes), where.name, inner[0]))

    first = Storage(memory, dtype, tuple(inner), name, where, at)
    site = first.site.repeats(None, first)

    def tile(index):
        if not allocator and address is None:
            return site.tile(rec)
        s = Storage(memory, dtype, tuple(inner), name, where, at)
        s.place = allocator.place(index, inner[0], s.free * dtype.size) if allocator else \
            _placed(address)
        return Tensor(rec.number(s), dtype, s.shape, site.like.steps)
    if not lead:
        return tile(())
    tiles = {i: tile(i) for i in itertools.product(*map(range, sizes[:lead]))}
    return Blocks(sizes[:lead], inner, dtype, where, tiles, name)


def in_c(function):
    """ndarray(), which the module in C calls only for what a place has not made before."""
    return call_of(function, 0, 0, (), _soma.TILE, (-1, -1, -1, -1))


def _in_hbm(rec, sizes, dtype, where, name, place):
    """A tensor in HBM. Shared tensors of later programs of a grid are those of the first."""
    s = Storage(HBM, dtype, tuple(sizes), name or "tensor", where, place)
    if where is not shared_hbm:
        rec.number(s)
        s.role = L.ROLE_OUTPUT if rec.is_returned(s) else L.ROLE_TEMP
        return Tensor(s, dtype, s.shape, dense(s.shape))
    at, rec.shared_at = rec.shared_at, rec.shared_at + 1
    known = rec.shared if rec.program_index else rec.peer.shared if rec.peer else None
    if known is not None and (at >= len(known) or known[at].shape != s.shape or
                              known[at].dtype is not dtype):
        raise KernelError("program %s: tensor %d in shared_hbm must have the shape and type that "
                          "the first program gives it" % (rec.program, at + 1))
    if rec.program_index:
        s = rec.shared[at]
    else:
        s.role = L.ROLE_OUTPUT
        rec.shared.append(rec.shares(s, known[at]) if known else rec.number(s))
    return Tensor(s, dtype, s.shape, dense(s.shape))


def _tiles(t):
    return t.all() if isinstance(t, Blocks) else [t]


def full(shape, fill_value, dtype=float32, buffer=None, name="", address=None, memory=None,
         lazy_initialization=False):
    """ndarray() filled with a number, at once: lazy_initialization only lets a compiler do it
    later."""
    t = ndarray(shape, dtype, buffer, name, address, memory)
    for tile in _tiles(t):
        if tile.memory == PSUM and fill_value == 0 and not tile.storage.place:
            tile.storage.zero = ZeroState(tile.storage)
        else:
            insn.assign(tile, fill_value)
    return t


def zeros(shape, dtype=float32, buffer=None, name="", address=None, memory=None,
          lazy_initialization=False):
    """ndarray() filled with zeros."""
    return full(shape, 0, dtype, buffer, name, address, memory)


def ones(shape, dtype=float32, buffer=None, name="", address=None, memory=None,
         lazy_initialization=False):
    """ndarray() filled with ones."""
    return full(shape, 1, dtype, buffer, name, address, memory)


def empty_like(x, dtype=None, buffer=None, name=""):
    """ndarray() of x's shape and type."""
    x = x if isinstance(x, Blocks) else need(x, "x", "nl.empty_like")
    return ndarray(x.shape, x.dtype if dtype is None else dtype,
                   x.buffer if buffer is None else buffer, name)


def zeros_like(x, dtype=None, buffer=None, name=""):
    """zeros() of x's shape and type."""
    x = x if isinstance(x, Blocks) else need(x, "x", "nl.zeros_like")
    return zeros(x.shape, x.dtype if dtype is None else dtype,
                 x.buffer if buffer is None else buffer, name)


def shared_constant(constant, dtype=None):
    """A constant in HBM: an array, or the path of a .npy file; dtype converts it."""
    from soma import arrays
    data = np.load(constant) if isinstance(constant, str) else constant
    if dtype is not None:
        t = find(dtype)
        try:
            data = arrays.array(np.asarray(data).astype(np.float32) if t.float else data, t)
        except OverflowError:
            raise KernelError("nl.shared_constant: a number of %s does not fit in %s"
                              % (insn.said(constant), t)) from None
    data, t = arrays.host_array(data)
    tensor = insn.constant(data, t)
    tensor.storage.buffer = shared_hbm
    return tensor


def shared_identity_matrix(n, dtype=uint8, dst=None):
    """An identity matrix of n x n in SBUF; equal ones are made once."""
    if dst is not None:
        insn.tensor_copy(need(dst, "dst", "shared_identity_matrix"), identity(n, find(dtype)))
        return dst
    return identity(n, find(dtype))


def rand(shape, dtype=float32, buffer=None, name="", address=None, memory=None):
    """ndarray() with random numbers in [0, 1)."""
    from ..isa._elementwise import emit_ts
    t = ndarray(shape, dtype, buffer, name, address, memory)
    for tile in _tiles(t):
        if record.active().gen >= 4:
            record.active().emit(insn.OP["rand2"], insn.VECTOR, (
                tile.words(), insn.number(0.0), insn.number(1.0)))
            continue
        bits = new_tile((tile.shape[0], tile.free_size), find("uint32"))
        record.active().emit(insn.OP["rng"], insn.VECTOR, (bits.words(),))
        emit_ts(bits, bits, insn.ALU["logical_shift_right"], 8, engine=insn.VECTOR)
        emit_ts(tile, bits, insn.ALU["mult"], 2.0 ** -24, engine=insn.VECTOR)
    return t


def random_seed(seed):
    """Sets the generator from a seed of one element (a number is put into a tile)."""
    if seed.__class__ is not Tensor:
        seed = full((1, 1), number_of(seed, "seed", "nl.random_seed"), find("int32"))
    record.active().emit(insn.OP["set_rng_seed"], insn.VECTOR, (seed.words(),))
