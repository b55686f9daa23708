"""nki.collectives: operations of several ranks. They run in a world (soma.world, soma-nki -n);
groups of one rank run anywhere.

An operation begins once what it reads is written, and its engine goes on; the builder lets what
uses its destinations wait for its end. With two cores (kernel[2]) an operation on tensors that both
cores see is one operation of the rank, which the builder finds in both programs, or in one; of
SBUF and private_hbm it is one of each core with the same core of the other ranks."""
import functools
import inspect
import warnings

from soma import insn, kernel as K, ops, record
from soma.checked import whole
from soma.errors import KernelError
from soma.lib import ROLE_INPUT
from soma.register import Register
from soma.tensor import HBM
from soma.views import dense

from .isa._common import NKIObject, done, need, number_of, whole_mask

_PLAIN = insn.ALU["bypass"]


class ReplicaGroup(NKIObject):
    """Groups of ranks: lists of their numbers in the world, no rank in two. The order in a list is
    that of the parts of a gather, and of the ring."""

    def __init__(self, groups=None, **fields):
        super().__init__(groups=groups, **fields)

    def __repr__(self):
        return "ReplicaGroup(%r)" % (self.groups,)


# ---- Arguments ----

def _lists(group, call):
    """The lists of a ReplicaGroup, or of what older kernels give: lists of ranks."""
    lists = getattr(group, "groups", group)
    if isinstance(lists, (list, tuple)) and lists and all(
            isinstance(ranks, (list, tuple, range)) and len(ranks) for ranks in lists):
        numbers = [[whole(r) for r in ranks] for ranks in lists]
        if all(r is not None and 0 <= r < 1 << 32 for ranks in numbers for r in ranks):
            return numbers
    raise KernelError("%s: replica_group=%s: it needs lists of ranks, such as "
                      "ReplicaGroup([[0, 1], [2, 3]])" % (call, insn.said(lists)))


def _group(rec, group, call):
    lists = _lists(group, call)
    rec.ranks = max(rec.ranks, max(map(len, lists)))
    return rec.builder.group(lists)


def _tensors(x, what, call):
    """The tensors of a list; a tensor for a list of one, as older kernels give it."""
    if not isinstance(x, (list, tuple)):
        x = [x]
    if not x:
        raise KernelError("%s: %s is empty: give a list of tensors" % (call, what))
    return [need(t, "%s[%d]" % (what, i), call) for i, t in enumerate(x)]


def _by_channel(x, what, call):
    """One tensor of each channel, from a list of lists of one."""
    if not isinstance(x, (list, tuple)) or not x:
        raise KernelError("%s: %s is %s: give for each channel a list of one tensor"
                          % (call, what, insn.said(x)))
    found = []
    for i, channel in enumerate(x):
        tensors = _tensors(channel, "%s[%d]" % (what, i), call)
        if len(tensors) != 1:
            raise KernelError("%s: %s[%d] has %d tensors: a channel has one"
                              % (call, what, i, len(tensors)))
        found += tensors
    return found


def _list(tensors):
    return K.pack((len(tensors),)) + b"".join(t.words() for t in tensors)


def _tell(rec, text):
    """A warning at the kernel's line."""
    at = rec.where()
    name = rec.names.get(at[0])
    if name:
        key = ("told", at, text)
        if key not in rec.named:
            rec.named[key] = None
            warnings.warn_explicit(text, UserWarning, name, at[1])


def _look_at(rec, call, *tensors):
    """Warns of operands that the vendor's compiler does not take."""
    for t in tensors:
        if t.memory != HBM:
            continue
        if t.storage.role == ROLE_INPUT:
            _tell(rec, "%s on an argument of the kernel: neuronx-cc refuses this; copy it to a "
                  "tensor in shared_hbm first" % call)
        elif t.steps != dense(t.shape):
            _tell(rec, "%s on a view whose elements are not one after another: neuronx-cc refuses "
                  "this; copy it first" % call)
        elif call.startswith("all_gather") and t.dtype.name.startswith("float8"):
            _tell(rec, "%s of %s: the vendor's runtime has no gathers of 8-bit floats"
                  % (call, t.dtype))


def _prepared(rec, call, srcs, dsts):
    _look_at(rec, call, *srcs, *dsts)
    for t in dsts:
        t.storage.written = True


# ---- Operations ----

def _collective(call, srcs, dsts, replica_group, op, dim, priority, name):
    rec = record.active()
    first = rec.count
    srcs, dsts = _tensors(srcs, "srcs", call), _tensors(dsts, "dsts", call)
    group = _group(rec, replica_group, call)
    _prepared(rec, call, srcs, dsts)
    rec.emit(insn.OP[call], insn.ANY,
             (_list(dsts), _list(srcs), (group, op, dim, 0, 0, priority or 0)))
    return done(rec, first, name)


def all_reduce(srcs=None, dsts=None, replica_group=None, op=None, priority=None, name=None):
    """Each dst = op (nl.add, nl.minimum, nl.maximum) over the srcs of all ranks of a list."""
    return _collective("all_reduce", srcs, dsts, replica_group, ops.alu(op), 0, priority, name)


def all_gather(srcs=None, dsts=None, replica_group=None, collective_dim=None, priority=None,
               name=None):
    """Each dst = the srcs of all ranks of a list, one after another along collective_dim: 0, in
    SBUF also 1."""
    return _collective("all_gather", srcs, dsts, replica_group, _PLAIN,
                       _dim(collective_dim, "all_gather"), priority, name)


def reduce_scatter(srcs=None, dsts=None, replica_group=None, collective_dim=None, op=None,
                   priority=None, name=None):
    """Each dst = this rank's part, along dimension 0, of op over the srcs of all ranks."""
    return _collective("reduce_scatter", srcs, dsts, replica_group, ops.alu(op),
                       _dim(collective_dim, "reduce_scatter"), priority, name)


def all_to_all(srcs=None, dsts=None, replica_group=None, collective_dim=None, priority=None,
               name=None):
    """Part i of each src, along dimension 0, goes to rank i of the list; in HBM."""
    return _collective("all_to_all", srcs, dsts, replica_group, _PLAIN,
                       _dim(collective_dim, "all_to_all"), priority, name)


def _dim(dim, call):
    if dim is None:
        raise KernelError("%s: collective_dim is missing: give 0, or 1 for all_gather in SBUF"
                          % call)
    dim = number_of(dim, "collective_dim", call)
    if dim in (0, 1):
        return dim  # the rules of each say more
    raise KernelError("%s: collective_dim=%d: it is 0, or 1 for all_gather in SBUF" % (call, dim))


def _with_metadata(call, srcs, dsts, replica_group, metadata_tensor, known, rdispls, priority,
                   name):
    rec = record.active()
    first = rec.count
    srcs, dsts = _tensors(srcs, "srcs", call), _tensors(dsts, "dsts", call)
    metadata = need(metadata_tensor, "metadata_tensor", call)
    if rdispls and call == "all_to_all_v" and rec.gen < 4:
        raise KernelError("%s: has_rdispls=True: it needs a NeuronSwitch, as trn3 has; the target "
                          "is %s" % (call, rec.target))
    if call == "all_gather_v" and rec.cores != 2:
        raise KernelError("%s: it needs the two cores of LNC=2 (kernel[2]): this launch has one"
                          % call)
    group = _group(rec, replica_group, call)
    _prepared(rec, call, srcs, dsts)
    if not known:
        metadata.storage.written = True
    rec.emit(insn.OP[call], insn.ANY,
             (_list(dsts), _list(srcs), (group,), metadata.words(),
              (int(bool(known)), int(bool(rdispls)), 0, 0, priority or 0)))
    return done(rec, first, name)


def all_gather_v(srcs=None, dsts=None, replica_group=None, metadata_tensor=None,
                 recv_counts_known=False, has_rdispls=False, priority=None, name=None):
    """all_gather of as many elements as metadata_tensor says: rows of uint32, a column a rank:
    send_count, send_displ (column 0 of each), recv_counts. A rank's elements lie from its share of
    dst on. Lists of 4 ranks, LNC=2; row 2 is written unless recv_counts_known."""
    return _with_metadata("all_gather_v", srcs, dsts, replica_group, metadata_tensor,
                          recv_counts_known, has_rdispls, priority, name)


def all_to_all_v(srcs=None, dsts=None, replica_group=None, metadata_tensor=None,
                 recv_counts_known=False, has_rdispls=False, priority=None, name=None):
    """all_to_all of as many elements as metadata_tensor says: rows send_counts, send_displs,
    recv_counts, and with has_rdispls (trn3) recv_displs."""
    return _with_metadata("all_to_all_v", srcs, dsts, replica_group, metadata_tensor,
                          recv_counts_known, has_rdispls, priority, name)


def collective_permute(srcs=None, dsts=None, source_target_pairs=None, priority=None, name=None):
    """The dst of each pair's second rank = the src of its first. A rank that is no target keeps
    its dst."""
    call = "collective_permute"
    rec = record.active()
    first = rec.count
    srcs, dsts = _tensors(srcs, "srcs", call), _tensors(dsts, "dsts", call)
    pairs = source_target_pairs if isinstance(source_target_pairs, (list, tuple)) else None
    numbers = [[whole(r) for r in p] if isinstance(p, (list, tuple)) else [] for p in pairs or ()]
    if not numbers or any(len(p) != 2 or None in p or min(p) < 0 for p in numbers):
        raise KernelError("%s: source_target_pairs=%s: it needs pairs of ranks, such as "
                          "[(0, 1), (1, 0)]" % (call, insn.said(source_target_pairs)))
    rec.ranks = max(rec.ranks, 1 + any(a != b for a, b in numbers))
    _prepared(rec, call, srcs, dsts)
    flat = tuple(r for p in numbers for r in p)
    rec.emit(insn.OP[call], insn.ANY,
             (_list(dsts), _list(srcs), (len(numbers),) + flat, (0, 0, priority or 0)))
    return done(rec, first, name)


def _channels(ids, call):
    if ids == [0]:
        return (0,)  # left out, as channel 0 is all that there is
    numbers = [number_of(i, "channel_ids", call) for i in ids]
    return (len(numbers),) + tuple(numbers)


def collective_permute_implicit(srcs_by_channel=None, dsts_by_channel=None, replica_group=None,
                                channel_ids=[0], priority=None, name=None):
    """Each rank sends to the next of its list, and receives from the one before it: one tensor a
    channel."""
    call = "collective_permute_implicit"
    rec = record.active()
    first = rec.count
    srcs = _by_channel(srcs_by_channel, "srcs_by_channel", call)
    dsts = _by_channel(dsts_by_channel, "dsts_by_channel", call)
    group = _group(rec, replica_group, call)
    _prepared(rec, call, srcs, dsts)
    rec.emit(insn.OP[call], insn.ANY,
             (_list(dsts), _list(srcs), (group,), _channels(channel_ids, call),
              (0, priority or 0)))
    return done(rec, first, name)


def collective_permute_implicit_reduce(srcs0_by_channel=None, srcs1_by_channel=None,
                                       dsts_by_channel=None, replica_group=None, op=None,
                                       channel_ids=[0], priority=None, name=None):
    """The same of op(srcs0, srcs1), which each rank calculates before it sends."""
    call = "collective_permute_implicit_reduce"
    rec = record.active()
    first = rec.count
    srcs0 = _by_channel(srcs0_by_channel, "srcs0_by_channel", call)
    srcs1 = _by_channel(srcs1_by_channel, "srcs1_by_channel", call)
    dsts = _by_channel(dsts_by_channel, "dsts_by_channel", call)
    code = ops.alu(op)
    group = _group(rec, replica_group, call)
    _prepared(rec, call, srcs0 + srcs1, dsts)
    rec.emit(insn.OP[call], insn.ANY,
             (_list(dsts), _list(srcs0), _list(srcs1), (group, code),
              _channels(channel_ids, call), (0, priority or 0)))
    return done(rec, first, name)


# ---- Numbers of ranks ----

def _register(rec, call, *parts):
    register = Register()
    rec.emit(insn.OP[call], insn.ANY, ((register.number(),),) + parts)
    register.writes("int32")
    return register


def collective_permute_implicit_current_processing_rank_id(iteration_id=None, replica_group=None,
                                                           channel_id=0, name=None):
    """A register with the rank whose data round iteration_id of a ring has: its own at 0, then
    those before it in the list."""
    call = "collective_permute_implicit_current_processing_rank_id"
    rec = record.active()
    first = rec.count
    channel = number_of(channel_id, "channel_id", call)
    group = _group(rec, replica_group, call)
    rec.ranks = max(rec.ranks, 1)
    register = _register(rec, "current_processing_rank_id",
                         insn.integer(iteration_id, "iteration_id"), (group, channel))
    if name:
        done(rec, first, name)
    return register


def rank_id(name=None):
    """A register with this rank's number in the world; 0 outside of one."""
    rec = record.active()
    first = rec.count
    rec.ranks = max(rec.ranks, 1)
    register = _register(rec, "rank_id")
    if name:
        done(rec, first, name)
    return register


# ---- As neuronxcc.nki.nccl had them ----

# The older name of an argument and the one here; None: it is taken and changes nothing.
_OLDER = {"src": "srcs", "dst": "dsts", "replica_groups": "replica_group", "dtype": None,
          "all_gather_dim": "collective_dim", "reduce_scatter_dim": "collective_dim"}


def _taken(function):
    """The function, which takes older names of arguments as well."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args, **kwargs):
        for old in _OLDER.keys() & kwargs.keys():
            value, new = kwargs.pop(old), _OLDER[old]
            if new in kwargs:
                raise TypeError("%s() got both %s and %s, its older name"
                                % (function.__name__, new, old))
            if new is not None:
                kwargs[new] = value
        if "op" in kwargs and "op" not in known:  # as gathers have it in older kernels
            del kwargs["op"]
        return function(*args, **kwargs)
    return call


def _by_one_channel(function):
    """The function, which takes one channel as well: dst, src, channel_id, num_channels, mask."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        if "dst" in kwargs and "src" in kwargs:
            mask = kwargs.pop("mask", None)
            if not isinstance(mask, (bool, type(None))):
                whole_mask(mask, function.__name__)
            elif mask is False:
                return None
            kwargs.pop("num_channels", None)
            kwargs.pop("channel_id", None)  # what is moved does not depend on it
            kwargs["srcs_by_channel"] = [[kwargs.pop("src")]]
            kwargs["dsts_by_channel"] = [[kwargs.pop("dst")]]
            if "replica_groups" in kwargs:
                kwargs["replica_group"] = kwargs.pop("replica_groups")
        return function(*args, **kwargs)
    return call


for _f in (all_reduce, all_gather, reduce_scatter, all_to_all, collective_permute):
    globals()[_f.__name__] = _taken(_f)
collective_permute_implicit = _by_one_channel(collective_permute_implicit)
