"""Scripts that are started once a rank: `soma-nki -n 4 script.py`.

The command starts the script as so many processes and waits for them (`start`). The k-th call of a
kernel with collectives is one run of a world in all of them: the process of rank 0 gets the
programs and arguments of the others, runs them, and sends back what each rank's call gives
(`call`). Each other process has a socket to that of rank 0; what is sent is in a file of memory
(memfd), and the socket only says which.
"""
import array
import mmap
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import time

import numpy as np

from . import arrays, dtypes, errors, launch, sessions, show
from . import lib as L
from .errors import SomaError
from .figures import RunStats, figures, summary

_FILES = "SOMA_NKI_RANKS"  # file descriptors of this process's sockets, after its number and theirs
MOST = 256   # processes
_GRACE = 5  # seconds for the others, once one has failed


# ---- The command -----------------------------------------------------------------------------

def start(n, command):
    """Runs a command as n processes, one a rank; the exit status: that of the first that failed."""
    # One pair of sockets for each rank but 0.
    pairs = [socket.socketpair() for _ in range(n - 1)]
    port = _free_port()
    children, lines = [], _Lines()
    try:
        for rank in range(n):
            mine = [a for a, _ in pairs] if rank == 0 else [pairs[rank - 1][1]]
            files = [s.fileno() for s in mine]
            child = subprocess.Popen(command, pass_fds=files, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, bufsize=0,
                                     env=_environment(rank, n, port, files))
            children.append(child)
            lines.add(rank, child.stdout, sys.stdout, False)
            lines.add(rank, child.stderr, sys.stderr, True)
    # The children have theirs; this process keeps none, so that an end shows.
    finally:
        for a, b in pairs:
            a.close()
            b.close()
    return _wait(children, lines)


def _environment(rank, n, port, files):
    # On a terminal, lines are to come as they are printed.
    unbuffered = {"PYTHONUNBUFFERED": "1"} if sys.stdout.isatty() else {}
    # The names of torchrun's variables, which scripts read.
    return dict(os.environ, **unbuffered, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n),
                LOCAL_WORLD_SIZE=str(n), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                NEURON_RT_VISIBLE_CORES=str(rank),
                **{_FILES: ",".join(map(str, [rank, n] + files))})


def _free_port():
    with socket.socket() as s:
        # The system chooses one that is free now.
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class _Lines:
    """What processes write, as it goes on to this one's stdout and stderr: whole lines, and those
    of one process that come together stay together. Lines of stderr say which rank they are of."""

    MOST, QUIET = 1 << 16, 0.1  # bytes that are kept; seconds after which lines go on

    def __init__(self):
        self.selector, self.open = selectors.DefaultSelector(), {}

    def add(self, rank, pipe, to, named):
        os.set_blocking(pipe.fileno(), False)
        self.open[pipe] = [b"", 0.0, to, b"rank %d: " % rank if named else b""]
        self.selector.register(pipe, selectors.EVENT_READ)

    def move(self, seconds):
        """Takes what comes in that time, and writes what is to be written."""
        # Without pipes select() would return at once.
        for key, _ in self.selector.select(seconds) if self.open else (time.sleep(seconds) or ()):
            try:
                data = os.read(key.fd, self.MOST)
            except BlockingIOError:
                continue
            kept = self.open[key.fileobj]
            kept[0], kept[1] = kept[0] + data, time.monotonic()
            # No bytes: the process has closed it.
            if not data:
                self._end(key.fileobj)
        for kept in self.open.values():
            # More than MOST without an end of line is written as it is.
            if len(kept[0]) > self.MOST or time.monotonic() - kept[1] > self.QUIET:
                self._write(kept, kept[0].rfind(b"\n") + 1 or
                            (len(kept[0]) if len(kept[0]) > self.MOST else 0))

    def _write(self, kept, n):
        data, kept[0] = kept[0][:n], kept[0][n:]
        if data:
            # Each piece has whole lines, so the rank comes before each.
            kept[2].buffer.write(b"".join(kept[3] + line for line in data.splitlines(True)))
            kept[2].flush()

    def _end(self, pipe):
        kept = self.open.pop(pipe)
        self.selector.unregister(pipe)
        pipe.close()
        # The last line gets its end, so that another process's begins on its own.
        if kept[0] and not kept[0].endswith(b"\n"):
            kept[0] += b"\n"
        self._write(kept, len(kept[0]))

    def close(self):
        """Takes what is there; a child of a process may keep its pipe open."""
        self.move(0)
        for pipe in list(self.open):
            self._end(pipe)


def _wait(children, lines):
    """Waits for all; ends those that go on long after one has failed."""
    status, since, told = 0, None, False
    while True:
        try:
            lines.move(0.02)
            for rank, child in enumerate(children):
                code = child.poll()
                # The first that fails gives the status; one ended by a signal counts as in a
                # shell.
                if code and not status:
                    status, since = code if code > 0 else 128 - code, time.monotonic()
                    if code < 0:
                        sys.stderr.write("soma-nki: rank %d was ended by signal %d\n"
                                         % (rank, -code))
            left = [r for r, child in enumerate(children) if child.poll() is None]
            if not left:
                lines.close()
                return status
            # The others may end by themselves meanwhile, with a better message.
            if since and time.monotonic() - since > _GRACE and not told:
                sys.stderr.write("soma-nki: a rank has failed; rank%s %s still at work: ended\n" % (
                    "" if len(left) == 1 else "s", ", ".join(map(str, left)) + (
                        " is" if len(left) == 1 else " are")))
                told = True
                for r in left:
                    children[r].terminate()
        except BrokenPipeError:  # nobody reads
            for child in children:
                child.terminate()
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
        except KeyboardInterrupt:  # the terminal has sent it to all
            since = since or time.monotonic()
            status = status or 128 + signal.SIGINT


# ---- This process ----------------------------------------------------------------------------

class Peers:
    """This process as a rank: its number, how many there are, sockets by rank: of rank 0 to all
    others, of others to rank 0."""

    def __init__(self, words):
        numbers = [int(w) for w in words.split(",")]
        self.rank, self.ranks = numbers[:2]
        # Rank 0 has a socket to each, the others to it.
        others = range(1, self.ranks) if self.rank == 0 else [0]
        self.sockets = {r: socket.socket(fileno=f) for r, f in zip(others, numbers[2:])}
        self.world = self.asked = None
        self.calls, self.process = 0, os.getpid()

    def send(self, rank, what):
        # 5: the protocol of pickle from Python 3.8 on.
        data = pickle.dumps(what, 5)
        fd = os.memfd_create("soma")
        try:
            # An empty mapping is an error.
            os.truncate(fd, max(len(data), 1))
            with mmap.mmap(fd, max(len(data), 1)) as m:
                m[:len(data)] = data
            self.sockets[rank].sendmsg(
                [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        finally:
            os.close(fd)

    def receive(self, rank):
        """What a rank has sent; None once it has ended."""
        try:
            # One byte, with the number of one open file beside it.
            data, more, _, _ = self.sockets[rank].recvmsg(1, socket.CMSG_LEN(4))
        except ConnectionError:
            return None
        if not data:
            return None
        fd = array.array("i", more[0][2])[0]
        try:
            with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as m:
                return pickle.loads(m)
        finally:
            os.close(fd)


_peers = False  # not known yet


# False: not looked yet. A child that a script forks has the number of its parent here.
def peers():
    """This process's Peers; None if soma-nki -n has not started it. Its children are no ranks."""
    global _peers
    if _peers is False:
        # Taken out, so that processes which the script starts are no ranks.
        words = os.environ.pop(_FILES, None)
        _peers = Peers(words) if words else None
    return _peers if _peers and _peers.process == os.getpid() else None


def rank():
    """This process's rank: 0 unless soma-nki -n has started it."""
    return peers().rank if peers() else 0


def ranks():
    """How many ranks soma-nki -n has started: 1 without it."""
    return peers().ranks if peers() else 1


# ---- Calls -----------------------------------------------------------------------------------

class Far:
    """A run in the process of rank 0, as this process sees it."""

    recorder = None

    def __init__(self, told):
        self.stats = RunStats(L.Stats.from_buffer_copy(told["stats"]))
        self.findings, self.time_ns = show.Findings(told["findings"]), self.stats.time_ns
        self._out, self.placed = told["out"], {}

    figures = property(lambda self: figures(self.stats))

    def summary(self):
        return summary(self.stats)

    def take(self, name):
        return _unpacked(self._out[name])

    fetch = take

    def _elsewhere(self, *_, **__):
        raise SomaError("this run was made in the process of rank 0, which has its timeline and "
                        "tables")

    timeline = table = page = trace = explain = critical_path = idle_gaps = _elsewhere


def _packed(value):
    data, dtype = arrays.host_array(value)
    return dtype.name, data.shape, data.reshape(-1).view(np.uint8).tobytes()


def _unpacked(parts):
    name, shape, data = parts
    dtype = dtypes.find(name)
    bits = np.frombuffer(bytearray(data), "u%d" % dtype.size).reshape(shape)
    return arrays.from_bits(bits, dtype)


def call(built, values, options):
    """The run of this process's rank in the next run of the world that all have in common, and in
    the process of rank 0 (all runs, what they ran in), elsewhere None."""
    p = peers()
    # How many calls this process has made, for messages.
    p.calls += 1
    mine = {"kernel": built.name, "at": sessions.caller(), "program": built.program.bytes(),
            "clear": built.unknown, "inputs": {n: _packed(v) for n, v in values.items()}}
    if p.rank == 0:
        return _run_all(p, built, values, mine, options)
    try:
        p.send(0, mine)
        told = p.receive(0)
    except ConnectionError:
        told = None
    if told is None:
        raise SomaError("rank 0 has ended, and rank %d waits for it in %s() (%s)"
                        % (p.rank, mine["kernel"], mine["at"]))
    # The error of rank 0 is that of all, of the same class.
    if "error" in told:
        raise getattr(errors, told["kind"], SomaError)(told["error"])
    return Far(told), None


def _run_all(p, built, values, mine, options):
    """In the process of rank 0: takes the calls of the others, runs all, tells each its result."""
    # In the order of ranks; each waits for its answer.
    calls = [mine] + [p.receive(r) for r in range(1, p.ranks)]
    try:
        _agree(p, calls)
        ranks, runs = _run(p, built, values, calls, options)
    except BaseException as error:
        for r in range(1, p.ranks):
            # Those that have ended get none.
            if calls[r]:
                _tell(p, r, {"error": str(error), "kind": type(error).__name__})
        raise
    for r in range(1, p.ranks):
        run = runs[r]
        _tell(p, r, {"stats": bytes(run.stats.raw), "findings": list(run.findings),
                     "out": {n: _packed(run.fetch(n))
                             for n, (_, _, role) in run.program.tensors.items()
                             if role in ("input", "output")}})
    return runs[0], (runs, ranks)


def _tell(p, rank, what):
    try:
        p.send(rank, what)
    except ConnectionError:
        pass  # it has ended meanwhile


def _who(ranks, one, many):
    """`rank 2 has`, `ranks 1, 3 have`."""
    return "rank%s %s %s" % ("s" if len(ranks) > 1 else "", ", ".join(map(str, ranks)),
                             many if len(ranks) > 1 else one)


def _agree(p, calls):
    """Whether all have called, and one kernel."""
    first = calls[0]
    gone = [r for r, c in enumerate(calls) if c is None]
    here = [r for r, c in enumerate(calls) if c is not None]
    if gone:
        raise SomaError("%s ended, and %s in %s() (%s), call %d of a kernel with collectives"
                        % (_who(gone, "has", "have"), _who(here, "waits", "wait"),
                           first["kernel"], first["at"], p.calls))
    for r, c in enumerate(calls):
        if c["kernel"] != first["kernel"]:
            raise SomaError("rank 0 calls %s() (%s), but rank %d calls %s() (%s): call %d of a "
                            "kernel with collectives must be of one kernel on all ranks"
                            % (first["kernel"], first["at"], r, c["kernel"], c["at"], p.calls))


def _run(p, built, values, calls, options):
    from .worlds import World
    target = built.program.target
    # A world with other options is another one.
    if p.world is None or p.asked != options:
        p.world, p.asked = World(p.ranks, print=launch._print, **options), options
    # Ranks with the same program share it.
    loaded, programs = {calls[0]["program"]: built.program}, []
    for c in calls:
        if c["program"] not in loaded:
            loaded[c["program"]] = launch.plain_machine(target).load(c["program"])
        programs.append(loaded[c["program"]])
    inputs = [values] + [{n: _unpacked(v) for n, v in c["inputs"].items()} for c in calls[1:]]
    return p.world.start(programs, inputs, clear=any(c["clear"] for c in calls))
