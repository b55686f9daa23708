"""The processes of an MPI job that run one script: a sweep's variants go to those that are free,
and with soma-nki --mpi each moves some of the ranks of a world.

It needs mpi4py, and a script that reaches the same sweeps and worlds in each process.
"""
import atexit
import ctypes as C
import os
import sys
import time
import traceback

from . import callbacks, files
from . import lib as L
from .errors import SomaError

_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_state = {}


def _comm():
    """The job's communicator; None if there is no job of several processes."""
    if "comm" not in _state:
        _state["comm"] = None
        if any(int(os.environ.get(name, 1)) > 1 for name in _SIZES):
            try:
                from mpi4py import MPI
            except ImportError:
                raise SomaError("%s has no mpi4py, which a job of MPI needs (Debian: "
                                "python3-mpi4py)" % sys.executable) from None
            if MPI.COMM_WORLD.Get_size() > 1:
                _state["comm"] = MPI.COMM_WORLD
                _watch_end(MPI.COMM_WORLD)
    return _state["comm"]


def rank():
    """This process's number in the job, 0 without one."""
    comm = _comm()
    return comm.Get_rank() if comm else 0


def share(work, todo, done, found):
    """work(items, done) on all items (number, variant): here, or by all processes of the job. Gives
    what was found by number, the same in each process; process 0 hands the items out, and its
    `todo`, `done` and `found` count."""
    comm = _comm()
    if comm is None:
        work(todo, done)
        return found
    if comm.Get_rank() == 0:
        _hand_out(comm, todo, done)
        for p in range(1, comm.Get_size()):
            _send(comm, found, p, _ITEM)
        return found
    work(_asked(comm), lambda number, one: _send(comm, (number, one), 0, _WORD))
    _send(comm, None, 0, _WORD)
    return _receive(comm, 0, _ITEM)[0]


def _asked(comm):
    """Items that process 0 hands out, one by one."""
    while True:
        _send(comm, "more", 0, _WORD)
        item = _receive(comm, 0, _ITEM)[0]
        if item is None:
            return
        yield item


def _hand_out(comm, todo, done):
    from mpi4py import MPI
    items, left = iter(todo), comm.Get_size() - 1
    while left:
        message, source = _receive(comm, MPI.ANY_SOURCE, _WORD)
        if message is None:
            left -= 1
        elif message == "more":
            _send(comm, next(items, None), source, _ITEM)
        else:
            done(*message)


# ---- Waiting -----------------------------------------------------------------------------------

# Messages of a sweep: to process 0, from it. _ENDED: to process 0 from one that has come to its
# end, and from 0 to all.
_WORD, _ITEM, _ENDED = 1, 2, 3


def _send(comm, what, to, tag):
    request = comm.isend(what, to, tag)
    _await(lambda: request.Test(), "a sweep")


def _receive(comm, source, tag):
    """A message, and who has sent it."""
    from mpi4py import MPI
    status = MPI.Status()
    _await(lambda: comm.Iprobe(source, tag, status), "a sweep")
    source = status.Get_source()
    return comm.recv(source=source, tag=tag), source


def _await(ready, what):
    """Others may compute for long, or need this core."""
    looks, ended = 0, None
    while not ready():
        looks += 1
        if looks < 500:
            os.sched_yield()
            continue
        time.sleep(5e-5)
        ended = _look_for_ends(ended, what)


def _look_for_ends(since, what):
    """A process that has ended its script never comes to this sweep or world, unless it has done
    its part: what it has sent last may be on its way, so this one looks on for a second."""
    from mpi4py import MPI
    comm, status = _comm(), MPI.Status()
    if not comm.Iprobe(0 if comm.Get_rank() else MPI.ANY_SOURCE, _ENDED, status):
        return None
    if since is not None and time.monotonic() - since > 1:
        _say("process %d has ended its script, but this one runs %s: a script must give the same "
             "in all of them\n" % (status.Get_source(), what))
        comm.Abort(1)
    return time.monotonic() if since is None else since


def _say(text):
    comm = _comm()
    where = comm.Get_rank(), comm.Get_size()
    sys.__stderr__.write("soma-nki: process %d of %d: %s" % (*where, text))
    sys.__stderr__.flush()


def _end(comm):
    """Waits without work until all have come to their ends. MPI's own end would not let the others
    stop the job: mpirun then waits for ever, once in a while."""
    others = range(1, comm.Get_size()) if comm.Get_rank() == 0 else [0]
    for p in others:
        comm.isend(None, p, _ENDED)
    for p in others:
        while not comm.Iprobe(p, _ENDED):
            time.sleep(1e-3)
        comm.recv(source=p, tag=_ENDED)


def _watch_end(comm):
    """For a script that runs without --mpi: an error ends the others too."""
    pid, shown = os.getpid(), sys.excepthook

    def fail(kind, error, at):
        shown(kind, error, at)
        if os.getpid() == pid and "job" not in _state:
            sys.stderr.flush()
            comm.Abort(1)

    def end():
        if os.getpid() == pid and "job" not in _state:
            _end(comm)

    sys.excepthook = fail
    atexit.register(end)


# ---- Worlds ------------------------------------------------------------------------------------

_TAG = 1
_PIECE = 1 << 30  # bytes of a message, which MPI counts in an int


class _Job:
    """What worlds of this process need of the job: a communicator of their own, so that nothing of
    a sweep comes to them."""

    def __init__(self, comm):
        self.comm, self.pid, self.room = comm.Dup(), os.getpid(), (C.c_char * 1)()
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.transport = L.Transport(self.rank, self.size, None,
                                     L.SHARE(callbacks.wrap(self._share, failed=0)),
                                     L.EXCHANGE(callbacks.wrap(self._exchange, failed=0)))

    def _share(self, _, mine, n, all_):
        self._await([self.comm.Iallgather(_bytes(mine, n), _bytes(all_, n * self.size))])
        return 1

    def _exchange(self, _, out, n, come, come_from):
        count = 8 * self.size
        self._await([self.comm.Ialltoall(_bytes(n, count), _bytes(come_from, count))])
        sizes = [(C.c_uint64 * self.size).from_address(x) for x in (n, come_from)]
        size = sum(sizes[1])
        if size > len(self.room) or len(self.room) // 8 > size + (1 << 20):
            self.room = None  # frees what came at the end of another world
            self.room = (C.c_char * (size + size // 4 + 1))()
        at, requests = C.addressof(self.room), []
        for p in range(self.size):
            for here in range(0, sizes[1][p], _PIECE):
                requests.append(self.comm.Irecv(
                    _bytes(at + here, min(sizes[1][p] - here, _PIECE)), p, _TAG))
            at += sizes[1][p]
        for p in range(self.size):
            for here in range(0, sizes[0][p], _PIECE):
                start = C.c_void_p.from_address(out + p * C.sizeof(C.c_void_p)).value + here
                requests.append(self.comm.Isend(
                    _bytes(start, min(sizes[0][p] - here, _PIECE)), p, _TAG))
        self._await(requests)
        C.c_void_p.from_address(come).value = C.addressof(self.room)
        return 1

    def meet(self):
        self._await([self.comm.Ibarrier()])

    def _await(self, requests):
        from mpi4py import MPI
        _await(lambda: MPI.Request.Testall(requests), "a world")

    def say(self, text):
        """On standard error. What all processes have to say process 0 says, and ends the others."""
        if self.rank:
            time.sleep(0.5)
        _say(text)

    def fail(self, kind, error, at):
        """In place of sys.excepthook."""
        notes = "".join(" (%s)" % n for n in getattr(error, "__notes__", ()))
        self.say("%s: %s%s\n%s" % (kind.__name__, error, notes,
                                   "".join(traceback.format_exception(kind, error, at))))

    def end(self, status):
        """A status ends all at once."""
        sys.stdout.flush()
        if status:
            self.comm.Abort(status)
        _end(_comm())


def _bytes(at, n):
    from mpi4py import MPI
    return [(C.c_char * n).from_address(at), MPI.BYTE]


def begin():
    """soma-nki --mpi: from now on worlds are moved by all processes of the job, of which only
    process 0 prints and writes files. The _Job; None unless there are several processes."""
    comm = _comm()
    if comm is None:
        return None
    _state["job"] = job = _Job(comm)
    if job.rank:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    sys.excepthook = job.fail
    return job


def meet():
    """Waits for the other processes, where worlds are of all of them."""
    if transport():
        _state["job"].meet()


def silent():
    """Whether another process writes the files that this one would write."""
    return "job" in _state and _state["job"].rank > 0


files.silent = silent


def transport():
    """What worlds of this process take as soma_world_options.transport. A variant of a sweep is a
    process of its own, and its worlds are too."""
    job = _state.get("job")
    return C.pointer(job.transport) if job and job.pid == os.getpid() else None
