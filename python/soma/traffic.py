"""What the ranks of a world have sent one another: collectives, links, calls of MPI."""
import ctypes as C

from . import lib as L
from . import show
from .lib import lib
from .machine import _text


class Collective:
    """A collective as a rank saw it: `op`, `algorithm`, `bytes` of the whole result, `ranks` of its
    list, `start_ns` when it was issued, `time_ns`, `algbw` and `busbw` in GB/s (as nccom-test has
    them), its place in the kernel (`file`, `line`), `rank`, `core`."""

    def __init__(self, rank, c):
        self.rank, self.core, self.op, self.algorithm = (rank, c.core, _text(c.op),
                                                         _text(c.algorithm))
        self.file, self.line, self.ranks = _text(c.file) or None, c.line, c.ranks
        self.bytes, self.algbw, self.busbw = c.bytes, c.algbw, c.busbw
        self.start_ns, self.time_ns = c.issued / 1e6, (c.end - c.issued) / 1e6

    def __repr__(self):
        place = " (%s:%d)" % (self.file, self.line) if self.file else ""
        return "<rank %d: %s by %s of %d ranks, %d bytes, at %s for %s, busbw %.2f GB/s%s>" % (
            self.rank, self.op, self.algorithm, self.ranks, self.bytes, show.span(self.start_ns),
            show.span(self.time_ns), self.busbw, place)


def collectives(handle, ranks):
    found, c = [], L.Collective()
    for rank in range(ranks):
        for i in range(lib.soma_world_collectives(handle, rank)):
            lib.soma_world_collective(handle, rank, i, C.byref(c))
            found.append(Collective(rank, c))
    return found


ENDS = {"switch": -1, "efa": -2}


class Link:
    """A link between two devices, or of one with the "switch" or "efa", in one direction: `start`
    and `end`, `rate` in GB/s, `bytes` and `messages` that went over it, `gbs` over the time of the
    run and `percent` of the rate, `waiting` bytes at most at once, and `waited_ns` of all messages
    behind others."""

    def __init__(self, row):
        names = {v: k for k, v in ENDS.items()}
        first = getattr(row, "from")
        self.start, self.end = names.get(first, first), names.get(row.to, row.to)
        self.bytes, self.messages, self.waiting = row.bytes, row.messages, row.waiting
        self.rate, self.gbs, self.percent = row.rate, row.gbs, row.percent
        self.busy_ns, self.waited_ns = row.busy / 1e6, row.waited / 1e6

    def __repr__(self):
        return "<link %s-%s: %d bytes, %.2f GB/s, %.1f %%, at most %d waiting>" % (
            self.start, self.end, self.bytes, self.gbs, self.percent, self.waiting)


def links(handle):
    found, row = [], L.LinkRow()
    for i in range(lib.soma_world_links(handle)):
        lib.soma_world_link(handle, i, C.byref(row))
        found.append(Link(row))
    return found


def transport(handle):
    calls, came = C.c_uint64(), C.c_uint64()
    lib.soma_world_traffic(handle, C.byref(calls), C.byref(came))
    return {"calls": calls.value, "bytes": came.value} if calls.value else None
