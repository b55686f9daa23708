"""Worlds of ranks: kernels and programs that run as several ranks with collectives between them.

    w = soma.world(ranks=4)
    run = w.run(kernel, lambda rank: dict(x=x[rank], group=ReplicaGroup([[0, 1, 2, 3]])))
    run[2].result, run.time_ns, run.findings

A rank is a logical core: one core, or two for kernel[2] (LNC=2). Ranks whose arguments have equal
shapes, types and numbers share one build.
"""
import copy
import ctypes as C
import functools
import numbers
import operator
import os
import time
from collections.abc import Mapping

from . import callbacks, debug, files, look, sessions, share, show, traffic
from . import lib as L
from .checked import femtoseconds
from .errors import DeadlockError, SomaError, SomaFault
from .lib import lib
from .machine import MOST_THREADS, OPTION_NAMES, Machine, Program, Run, _findings, _text
from .targets import GENERATION, need_target

_END = (1 << 64) - 1
MOST = 4096  # ranks: as soma_world_new


class _Ranks(L.Owner):
    """The world of libsoma over one machine for each rank."""

    _free = "soma_world_free"
    _instead = "make another world"

    def __init__(self, machines, lnc, instance, threads, algorithm):
        self.handle, self.machines = None, machines
        o = L.WorldOptions(C.sizeof(L.WorldOptions), len(machines), lnc,
                           None if instance is None else instance.encode())
        handles = (C.c_void_p * len(machines))(*[m.handle for m in machines])
        o.machines = C.cast(handles, C.c_void_p)
        o.threads, o.transport = threads, share.transport()
        o.algorithm = None if algorithm is None else algorithm.encode()
        why = C.create_string_buffer(1024)
        o.error, o.error_size = C.addressof(why), len(why)
        handle = C.c_void_p()
        status = lib.soma_world_new(C.byref(o), C.byref(handle))
        if status != L.OK:
            raise SomaError("no world: %s" % _text(why.value), status)
        self.handle = handle

    def check(self, status):
        if status in (L.OK, L.CHECK):  # findings are of the runs
            return
        kind = {L.FAULT: SomaFault, L.DEADLOCK: DeadlockError}.get(status, SomaError)
        raise kind(_text(lib.soma_world_error(self.handle)) or
                   _text(lib.soma_status_text(status)), status)

    def saved(self):
        data, n = C.c_void_p(), C.c_size_t()
        self.check(lib.soma_world_save(self.handle, C.byref(data), C.byref(n)))
        return L.take_bytes(data, n)

    def save(self, path):
        files.write(path, self.saved())
        share.meet()  # so that each process can read it

    def resume(self, data):
        self.check(lib.soma_world_resume(self.handle, data, len(data)))

    def debug(self, commands, texts):
        """Hands the world to the debugger, and takes it back as its user has left it."""
        left = debug.session(self.saved(), commands, texts)
        for rank in range(len(self.machines)):  # what has been saved goes on elsewhere
            lib.soma_run_free(C.c_void_p(lib.soma_world_run(self.handle, rank)))
        if left is None:
            raise _Left
        self.resume(left)
        self.check(lib.soma_world_until(self.handle, 0))  # where nothing is to come it ends

    def runs(self, programs=None):
        """The ranks' runs, which have started; programs: what they were made of, for texts."""
        runs = []
        for rank, machine in enumerate(self.machines):
            whole = Program(machine, C.c_void_p(lib.soma_world_program(self.handle, rank)),
                            programs[rank].texts if programs else {})
            runs.append(Run(machine, whole))
            runs[rank].handle = C.c_void_p(lib.soma_world_run(self.handle, rank))
        return runs

    def finish(self, runs, save=None):
        """Moves them to their end; save: a time in fs and a path, to save the world on the way."""
        if save:
            self.check(callbacks.call(lib.soma_world_until, self.handle, save[0]))
            self.save(save[1])
        if share.transport():  # whose functions handle signals; slices would keep it from its ranks
            self.check(callbacks.call(lib.soma_world_until, self.handle, _END))
        else:
            self.to_the_end()
        for rank, run in enumerate(runs):
            recorder, run.machine.recorder = run.machine.recorder, None
            run.made_by = "world(ranks=%d" % len(runs)
            if recorder:
                lib.soma_recorder_collectives(recorder.handle, self.handle, rank)
            run._finish(recorder)

    def to_the_end(self, stands=lambda: False):
        """In slices of simulated time, between which Python handles signals; or until, after one of
        them, they stand."""
        step = 50 * 10**9  # fs
        until = min(lib.soma_world_time(self.handle) + step, _END)
        reached = None
        while True:
            began = time.perf_counter()
            self.check(callbacks.call(lib.soma_world_until, self.handle, until))
            if stands():
                return
            before, reached = reached, lib.soma_world_time(self.handle)
            if until == _END or reached == before:  # nothing has happened since
                break
            took = time.perf_counter() - began
            step = step * 2 if took < 0.05 else max(step // 2, 1) if took > 0.2 else step
            until = min(until + step, _END)
        self.check(callbacks.call(lib.soma_world_until, self.handle, _END))


class _Left(Exception):
    """The user has left the debugger before the world's end."""


class _Planned(Exception):
    """The program that was asked for, in place of a run."""


def _whole(name, value, least, most, what):
    """A whole number from least to most; what it is, for who gives another."""
    try:
        n = operator.index(value)
    except TypeError:
        n = None
    if n is None or isinstance(value, bool):
        raise TypeError("%s=%r: it is %s" % (name, value, what))
    if not least <= n <= most:
        raise ValueError("%s=%r: it is %s, from %d to %d" % (name, value, what, least, most))
    return n


def _threads(n):
    return _whole("threads", n, 0, MOST_THREADS, "a number of threads, 0: all cores")


def of_rank(rank, call, *args):
    """call(*args); an error says that it is about that rank."""
    try:
        return call(*args)
    except Exception as error:
        note = "for rank %d of the world" % rank
        if hasattr(error, "add_note"):
            error.add_note(note)
        elif len(error.args) == 1:  # before Python 3.11
            error.args = "%s (%s)" % (error.args[0], note),
        raise


def _merged(handle, by_rank):
    """What the checks of all ranks have found, each once; `ranks` says which have it."""
    merged, f = show.Findings(), L.WorldFinding()
    for i in range(lib.soma_world_findings(handle)):
        lib.soma_world_finding_at(handle, i, C.byref(f), C.sizeof(f))
        ranks = [f.ranks[k] for k in range(f.nranks)]
        found = copy.copy(by_rank[ranks[0]][f.number])
        also = ", ".join(map(str, ranks[1:17])) + (len(ranks) > 17) * ", ..."
        also = also and "\n  also in rank%s %s" % ("s" * (len(ranks) > 2), also)
        prefix = "rank %d: " % ranks[0]
        found.text = prefix + found.text + also
        if found.unsignalled:
            found.unsignalled = u = copy.copy(found.unsignalled)
            u.fix = u.fix[0] + len(prefix), u.fix[1] + len(prefix)
        found.ranks = ranks
        merged.append(found)
    return merged


def _machines(n, target, options):
    options = dict({"causes": 0}, **options)
    return [Machine(target, **options) for _ in range(n)]


@functools.lru_cache(maxsize=64)
def _target_of(instance):
    """The target of an instance's devices."""
    handle, why = C.c_void_p(), C.create_string_buffer(1024)
    o = L.WorldOptions(C.sizeof(L.WorldOptions), 1, 1, instance.encode())
    o.threads, o.error, o.error_size = 1, C.addressof(why), len(why)
    status = lib.soma_world_new(C.byref(o), C.byref(handle))
    if status != L.OK:
        raise SomaError("no world: %s" % _text(why.value), status)
    target = _text(lib.soma_target(lib.soma_world_machine(handle, 0)))
    lib.soma_world_free(handle)
    return target


class WorldRun:
    """What ran: run[r] is what kernel.run() would give for rank r (of programs a soma.Run),
    `results` what each returned; `time_ns` until the last rank has ended, `stats` by rank,
    `findings` of all (each once, with its `ranks`), `collectives` that were completed, by rank and
    end, `links` between the devices, `trust`: how far times of collectives may be trusted;
    `transport`: the `calls` of MPI and the `bytes` that came to this process, None of a world that
    one process moved."""

    def __init__(self, runs, ranks, name, session=True):
        self.runs, self._ranks, self.name = runs, ranks, name
        self.time_ns = lib.soma_world_time(ranks.handle) / 1e6
        self.hash = lib.soma_world_hash(ranks.handle)
        self.instance = _text(lib.soma_world_instance(ranks.handle))
        self.trust = _text(lib.soma_world_trust(ranks.handle))
        self.collectives = traffic.collectives(ranks.handle, len(runs))
        self.links = traffic.links(ranks.handle)
        self.transport = traffic.transport(ranks.handle)
        self.stats = [r.stats for r in runs]
        self.findings = _merged(ranks.handle, [r.findings for r in runs])
        if session:
            sessions.ran_in_world(name, [getattr(r, "run", r) for r in runs], self.time_us)

    time_us = property(lambda self: self.time_ns / 1e3)
    results = property(lambda self: [r.result for r in self.runs])

    def __getitem__(self, rank):
        try:
            return self.runs[rank]
        except IndexError:
            raise IndexError("rank %d: the ranks are 0 to %d" % (rank, len(self) - 1)) from None

    def __len__(self):
        return len(self.runs)

    def __repr__(self):
        target = getattr(self.runs[0], "run", self.runs[0]).program.target
        return "<run of %s on %d ranks of %s%s: %s, %s>" % (
            self.name, len(self.runs), self.instance,
            "" if target in GENERATION else ", " + target, show.span(self.time_ns),
            show.count(len(self.findings)))

    def _recorded(self):
        """Handles of the ranks' recorders, programs and runs, as arrays."""
        runs = [getattr(r, "run", r) for r in self.runs]
        if not all(r.recorder for r in runs):
            raise SomaError("the world was not recorded: soma.world(ranks=%d, record=True)"
                            % len(runs))
        self._ranks.check(lib.soma_recorder_links(runs[0].recorder.handle, self._ranks.handle))
        return [(C.c_void_p * len(runs))(*[x.handle for x in xs])
                for xs in ([r.recorder for r in runs], [r.program for r in runs], runs)]

    def trace(self):
        """The trace of all ranks, as of one: its processes are named after the ranks."""
        recorders, programs, _ = self._recorded()
        collect = L.Collect()
        self._ranks.check(callbacks.call(lib.soma_write_world_chrome, recorders, programs,
                                         len(self.runs), collect.fn, None))
        return collect.text()

    def page(self, path=None, *, title=None):
        """A page for a browser with all ranks: their collectives, links, the critical path over
        them (with causes=True), and one rank as its run's page has it, which the reader chooses; as
        text, written to a file where `path` is given, compressed where that ends in .gz."""
        arrays, collect = self._recorded(), L.Collect()
        o = L.PageOptions(C.sizeof(L.PageOptions), (title or self.name).encode())
        texts = getattr(self.runs[0], "run", self.runs[0]).program.texts
        sources = L.Sources(texts) if texts is not None else None
        if sources:
            o.source = sources.fn
        self._ranks.check(callbacks.call(lib.soma_write_world_page, self._ranks.handle, *arrays,
                                         C.byref(o), collect.fn, None))
        text = collect.text()
        if path is not None:
            files.write(path, files.named(path, text))
        return text

    def svg(self, width=1000, rows=None):
        """A picture: of each rank what its engines did over time, its collectives, what its CC
        sequencers pushed and added, and which pushes other ranks waited for. rows: some of
        ("tensor", "vector", "scalar", "gpsimd", "collectives", "cc0", "cc1"); None: all."""
        from .world_picture import svg
        return svg(self, width, rows)

    def timeline(self, width=0):
        """Rows of engines and queues over time, of each rank."""
        return show.Text("\n".join("rank %d\n%s" % (r, run.timeline(width))
                                   for r, run in enumerate(self.runs)))


class World:
    """ranks: how many. lnc: cores of a rank, 1 or 2; None: as many as what runs has. instance: as
    "trn2.48xlarge"; None: the smallest that holds the ranks. threads: of the host; 0: all its
    cores. algorithm: of all collectives ("ring", "mesh" ...); None: by their size. Other options
    are those of soma.Machine, for each rank; kernels are built for its `target`."""

    def __init__(self, ranks, lnc=None, instance=None, threads=0, algorithm=None, target=None,
                 **options):
        ranks = _whole("ranks", ranks, 1, MOST, "a number of ranks")
        threads = _threads(threads)
        if lnc not in (None, 1, 2):
            raise ValueError("lnc=%r: a rank has 1 core or 2" % (lnc,))
        for name, value in (("instance", instance), ("algorithm", algorithm)):
            if value is not None and not isinstance(value, str):
                raise TypeError("%s=%r: it is a name" % (name, value))
        for name in options.keys() - set(OPTION_NAMES):
            raise TypeError("there is no option %s; there are ranks, lnc, instance, algorithm, %s"
                            % (name, ", ".join(OPTION_NAMES)))
        self.ranks, self.lnc, self.instance = ranks, lnc, instance
        self.threads, self.algorithm, self.options = threads, algorithm, options
        self.target = None if target is None else need_target(target)
        # what kernels are built for that ask for no target
        self.default_target = self.target
        if target is None and instance is not None:
            self.default_target = _target_of(instance)
        # now, and not by the first run, which may be far from here
        _Ranks(_machines(1, self.default_target, options), lnc or 1, instance, threads, algorithm)
        self._changes = []  # of links and ranks: calls of the library
        self._save = None  # of the run at work: fs, path
        self._commands = None  # of the debugger, for the run at work: a list of one text, or None
        self._looked = True  # an editor may go through its runs
        self._plans = None  # of the call at work: the rank whose program is asked for, or None
        self._made = None  # (target, cores, machines and world) of the last run, for the next

    def __repr__(self):
        return "<world of %d ranks%s>" % (self.ranks,
                                          " of " + self.instance if self.instance else "")

    def slow_link(self, a, b, factor, at=0):
        """What if the link between devices a and b had less of its rate, from `at` ns on: factor 0
        to 1. An end is a device, "switch" or "efa"."""
        if not isinstance(factor, numbers.Real) or not (factor == 0 or 0.001 <= factor <= 1):
            raise ValueError("factor=%r: it is what is left of a link's rate, 0.001 to 1; 0 is a "
                             "failed link" % (factor,))
        self._change(lib.soma_world_slow_link, self._end(a), self._end(b), float(factor),
                     femtoseconds(at, "at"))

    def fail_link(self, a, b, at=0):
        """What if that link failed at `at` ns: at 0 messages go other ways, later it stops them."""
        self.slow_link(a, b, 0, at)

    def delay_rank(self, rank, ns):
        """What if a rank began so much later than the others."""
        rank = _whole("rank", rank, 0, self.ranks - 1, "the number of a rank")
        self._change(lib.soma_world_delay_rank, rank, femtoseconds(ns, "ns"))

    @staticmethod
    def _end(device):
        if device in traffic.ENDS:
            return traffic.ENDS[device]
        return _whole("device", device, 0, (1 << 16) - 1, 'a number, "switch" or "efa"')

    def _change(self, call, *arguments):
        """Of all runs from now on, which raise what only the instance knows, such as that it has
        no such link."""
        self._changes.append((call, arguments))
        self._made = None

    def run(self, what, arguments=None, save=None):
        """Runs a kernel, or a program, on all ranks. arguments: of each rank's call by name, from a
        function of the rank or a list by rank, or one dict for all; of a program its inputs. A list
        of programs has one for each rank. save: (ns, path), to save the world at that time on the
        way, for soma.load_world. A WorldRun."""
        if save is not None:
            if not isinstance(save, (tuple, list)) or len(save) != 2:
                raise TypeError("save=%r: it is (nanoseconds, path)" % (save,))
            ns, path = save
            self._save = femtoseconds(ns, "save"), os.fspath(path)
        seen = look.call(what.__name__) if hasattr(what, "run_in") else None
        try:
            return self._looked_at(seen, what, arguments) if seen else self._run(what, arguments)
        finally:
            self._save = None

    def _looked_at(self, seen, what, arguments):
        """The same of a kernel, with what soma-nki's options ask for."""
        arguments = self._by_rank(arguments)
        if seen.wants_checks():  # first: the run may write its arguments
            seen.found(self.check(what, arguments, **seen.check_options()))
        options = seen.world_options(self.options)
        threads = options.pop("threads", 0)
        world = self
        if options != self.options or threads:
            world = self._with(options, self.threads or threads)
            world._save = self._save
        run = world._run(what, arguments)
        seen.done(max(run.runs, key=lambda r: r.time_us), run)  # the last, as `soma --ranks` has it
        return run

    def debug(self, what, arguments=None, commands=None):
        """The same under the debugger, which reads commands from the lines of `commands` first, if
        given, and then from standard input. A WorldRun, or None if it was left before its end."""
        if self.options.get("record"):
            raise SomaError("a world that is recorded cannot go back: debug it without record=True")
        self._commands = [commands]
        try:
            return self._run(what, arguments)
        except _Left:
            return None
        finally:
            self._commands = None

    def plan(self, what, arguments=None, rank=0):
        """The Program that a rank would run, with those of its CC sequencers: `.source()` shows it,
        and a changed one runs in its place. Nothing runs."""
        self._plans = _whole("rank", rank, 0, self.ranks - 1, "the number of a rank")
        try:
            self._run(what, arguments)
        except _Planned as planned:
            return planned.args[0]
        finally:
            self._plans = None

    def _run(self, what, arguments):
        if isinstance(what, (list, tuple, Program)):
            return self._programs(what, arguments)
        if not hasattr(what, "run_in"):
            raise TypeError("%r in a world: it runs a kernel of @nki.jit, or a program of "
                            "assemble()" % (what,))
        return what.run_in(self, self._by_rank(arguments))

    def check(self, what, arguments=None, checks="all", schedules=1, twins=True):
        """Runs a kernel, or a program, on all ranks with checks, under `schedules` legal timings of
        all ranks, and returns what they found, each once; a finding's `ranks` are those that have
        it. NumPy arrays among the arguments stay as they are."""
        from . import checking
        return checking.check_world(self, what, self._by_rank(arguments), checks, schedules, twins)

    def again(self, **options):
        """A world like this one, with its links and ranks as they were changed, with other options.
        """
        options = dict(self.options, **options)
        return self._with({n: v for n, v in options.items() if n != "record"}, self.threads)

    def _with(self, options, threads):
        world = World(self.ranks, self.lnc, self.instance, threads, self.algorithm, self.target,
                      **options)
        world._changes = list(self._changes)
        return world

    def _by_rank(self, arguments):
        if callable(arguments):
            given = [of_rank(rank, arguments, rank) for rank in range(self.ranks)]
        elif isinstance(arguments, (list, tuple)):
            if len(arguments) != self.ranks:
                raise ValueError("arguments of %d ranks for a world of %d"
                                 % (len(arguments), self.ranks))
            given = list(arguments)
        else:
            given = [arguments if arguments is not None else {}] * self.ranks
        for rank, names in enumerate(given):
            if not isinstance(names, Mapping):
                raise TypeError("arguments of rank %d: a %s; they are a dict, as dict(x=x[%d])"
                                % (rank, type(names).__name__, rank))
        return given

    def _programs(self, what, arguments):
        programs = [what] * self.ranks if isinstance(what, Program) else list(what)
        if len(programs) != self.ranks:
            raise ValueError("%d programs for a world of %d ranks" % (len(programs), self.ranks))
        ranks, runs = self.start(programs, self._by_rank(arguments))
        return WorldRun(runs, ranks, "a program")

    def start(self, programs, inputs, lnc=None, clear=False):
        """Runs a program and inputs for each rank to their end: (_Ranks, [Run])."""
        ranks, runs = self._open(programs[0].target, lnc or self.lnc or
                                 lib.soma_program_cores(programs[0].handle)), []
        try:
            self._begin(ranks, programs, inputs, clear, runs)
            error = self._finish(ranks, runs)
            if error and lib.soma_world_again(ranks.handle):  # whole, for the whole report
                for run in runs:
                    run.give_back()
                runs.clear()
                self._begin(ranks, programs, inputs, clear, runs)
                error = self._finish(ranks, runs)
            if error:
                raise error
        except BaseException as error:
            if isinstance(error, SomaError):
                error.findings = _merged(ranks.handle, [_findings(r.handle) for r in runs])
            for run in runs:
                run.give_back()
            self._made = None
            raise
        if self.options.get("record"):  # a recorder keeps one run
            self._made = None
        return ranks, runs

    def _finish(self, ranks, runs):
        """The error that has ended the ranks; None: they have come to their ends."""
        try:
            ranks.finish(runs, self._save)
        except SomaError as error:
            return error
        return None

    def _begin(self, ranks, programs, inputs, clear, runs):
        """Starts the ranks, whose runs come into the list; in the debugger they come to their end.
        """
        keep = []
        for rank, (machine, program) in enumerate(zip(ranks.machines, programs)):
            if clear:
                machine.clear()
            ranks.check(lib.soma_world_load(ranks.handle, rank, program.handle))
            keep.append(machine.bind(program, inputs[rank]))
        ranks.check(lib.soma_world_start(ranks.handle))
        if self._plans is not None:
            raise _Planned(Program(ranks.machines[self._plans], C.c_void_p(
                lib.soma_world_program(ranks.handle, self._plans)), programs[self._plans].texts))
        if self._commands:
            texts = {name: text for p in programs for name, text in (p.texts or {}).items()}
            ranks.debug(self._commands[0], texts)
        runs += ranks.runs(programs)
        if self._commands and not all(run.ended for run in runs):
            raise _Left
        if self._looked and not self._save:  # which is to happen on the way
            look.of_world(ranks, runs, programs)

    def _open(self, target, lnc):
        """The machines and the world for what runs next; SBUF keeps what the run before left."""
        if self.target and self.target != target:
            raise SomaError("the world's target is %s, but what it runs is built for %s"
                            % (self.target, target))
        key = target, lnc
        if self._made and self._made[0] == key:
            return self._made[1]
        self._made = None
        ranks = _Ranks(_machines(self.ranks, target, self.options), lnc, self.instance,
                       self.threads, self.algorithm)
        for call, arguments in self._changes:
            ranks.check(call(ranks.handle, *arguments))
        self._made = key, ranks
        return ranks


def world(ranks, lnc=None, instance=None, threads=0, algorithm=None, target=None, **options):
    """A world of ranks: see World. `soma.world(ranks=4).run(kernel, lambda rank: {...})`."""
    return World(ranks, lnc, instance, threads, algorithm, target, **options)


def plan(what, arguments=None, *, ranks, rank=0, **options):
    """The Program of a rank of a world of `ranks`, which does not run: see World.plan. Options are
    those of soma.world: `soma.plan(program, ranks=4, rank=1, algorithm="ring").source()`."""
    return World(ranks, **dict({"timing_only": True}, **options)).plan(what, arguments, rank)


def load_world(path, threads=0, target=None, **options):
    """The WorldRun of a world that world.run(..., save=(ns, path)) has saved: it goes on to its
    end, on machines of its target. Results are tensors by name: run[rank].out["y"]. Options are
    those of soma.Machine."""
    with open(path, "rb") as f:
        data = f.read()
    name = C.create_string_buffer(256)
    if target is not None:
        target = need_target(target)
    elif lib.soma_world_saved_target(data, len(data), name, len(name)) == L.OK:
        target = _text(name.value)
    o, why = L.WorldOptions(C.sizeof(L.WorldOptions)), C.create_string_buffer(1024)
    o.error, o.error_size = C.addressof(why), len(why)
    status = lib.soma_world_saved(data, len(data), C.byref(o))
    if status != L.OK:
        raise SomaError("%s: %s" % (path, _text(why.value)), status)
    instance, algorithm = _text(o.instance), _text(o.algorithm) if o.algorithm else None
    ranks = _Ranks(_machines(o.ranks, target, options), o.lnc, instance, _threads(threads),
                   algorithm)
    while True:
        ranks.resume(data)
        runs = ranks.runs()
        try:
            look.of_world(ranks, runs, [run.program for run in runs])
            ranks.finish(runs)
            return WorldRun(runs, ranks, "a saved world")
        except BaseException as error:
            for run in runs:
                run.give_back()
            if not isinstance(error, SomaError) or not lib.soma_world_again(ranks.handle):
                raise
