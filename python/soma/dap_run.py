"""What a debugger's adapter (dap.py) asks of what stands: a Run of this process, or the ranks of a
world. A core of a run is named by its number, one of a world by (rank, core)."""
import ctypes as C
import os
import re

import numpy as np

from . import callbacks, inside
from . import lib as L
from .errors import SomaError
from .lib import Hit, Stop, lib
from .moves import instructions, text_of

SHOWN = 200  # of a list of variables


def value_text(x):
    """An array on one line, with its type."""
    text = " ".join(np.array2string(np.asarray(x, np.float32) if x.dtype.kind == "V" else x,
                                    threshold=8, edgeitems=2).split())
    return "%s%s %s" % (getattr(x, "soma_dtype", x.dtype), list(x.shape), text)


class Text(str):
    """A value of which there is its text, and whether it is true; and what is in it."""

    def __new__(cls, text, holds=True):
        x = str.__new__(cls, text)
        x.holds = holds
        return x

    number = 0  # of what is in it; 0: nothing is

    def __bool__(self):
        return self.holds

    __repr__ = str.__str__

    def inside(self):
        """[(name, value)]"""
        return []


class Here:
    """A Run of this process."""

    left = False  # the script moves it on, before it has ended

    def __init__(self, run, moments=None):
        self.moments = moments or ()  # of each core's recorder
        self.run, self.tiles = run, inside.tiles(run.program)
        self.origins = {name: t.origin for name, t in self.tiles.items()}
        self.tensors, self.past, self._found = list(run.program.tensors), [], None

    # ---- What it has ----

    def of(self, core):
        """What has the `tiles` and `tensors` of a core."""
        return self

    def moments_of(self, core):
        """What is kept of Python's variables; None: nothing."""
        return self.moments[core] if self.moments else None

    @property
    def time_ns(self):
        return self.run.time_ns

    @property
    def ended(self):
        return self.run.ended

    def instructions(self):
        """[(core, engine, pc, path of the file, line)] of the whole program."""
        if self._found is None:
            files, found = {None: None}, []
            for core, e, pc in instructions(self.run.program):
                i = self.run._instruction(core, e, pc)
                if i.file not in files:
                    files[i.file] = os.path.realpath(os.path.abspath(i.file.decode()))
                found.append((core, L.ENGINES[e], pc, files[i.file], i.line))
            self._found = found
        return self._found

    def engines(self):
        """[(core, engine, name for the user)] of those that have more to do than to halt."""
        last = {}
        for core, e, pc, _, _ in self.instructions():
            last[core, e] = pc
        cores = {core for core, _ in last}
        return [(core, e, e if len(cores) < 2 else "core %d %s" % (core, e))
                for (core, e), pc in last.items() if pc]

    def engine(self, core, e):
        """As Run.engine, with the text of the next instruction."""
        state = self.run.engine(e, core)
        state["text"] = text_of(self.run.program, core, L.SEQUENCERS.index(e), state["pc"])
        return state

    def value(self, name, core):
        """A tensor or tile as an array; KeyError if there is none of that name."""
        if name in self.tensors:
            return self.run.fetch(name)
        return inside.read_tile(self.run.machine, self.tiles[name], core)

    def semaphores(self, core):
        """{name: value}"""
        p, m, found = self.run.program, self.run.machine, {}
        for i in range(256):
            name = lib.soma_program_semaphore_name(p.handle, core, i)
            if name:
                found[name.decode()] = m.semaphore(p, i, core)
        return found

    def registers(self, core, e):
        """The values of an engine's registers by their numbers."""
        return [self.run.machine.register(e, i, core) for i in range(64)]

    def evaluate(self, text, core, e, recorded):
        """An expression of the user, of the names that an engine has."""
        return eval(text, {"__builtins__": __builtins__}, Names(self, core, recorded))

    # ---- How it moves ----

    def step(self, core, e):
        self.run.step(e, core)

    def go(self, stops, writes):
        """To the next of the stops [(core, engine, pc)] or writes [(core, name)], to the end, or
        until pause(): (the number of what stopped it, who did: (core, engine or None), its words);
        None: it was none of these."""
        self.run._until_stop([self.stop(*s) for s in stops] +
                             [self.run.write_stop(name, core) for core, name in writes])
        hit = Hit()
        if self.run.ended or \
                lib.soma_run_hit(self.run.handle, 0, C.byref(hit), C.sizeof(hit)) != L.OK:
            return None
        which = self.run.stop_numbers.index(hit.stop)
        who = (hit.core, L.SEQUENCERS[hit.engine] if hit.engine >= 0 else None)
        return which, who, "written by " + self.writer(hit) if which >= len(stops) else ""

    def stop(self, core, e, pc):
        """Before that instruction issues."""
        return Stop(kind=1, core=core, engine=L.ENGINES.index(e), pc=pc)

    def writer(self, hit):
        """The instruction that has written, as words."""
        i = self.run._instruction(hit.core, hit.engine, hit.pc)
        place = "%s:%d: " % (i.file.decode(), i.line) if i.file else ""
        return "%s%s%s" % (place, L.SEQUENCERS[hit.engine] if hit.engine >= 0 else "the host",
                           "" if hit.dma_engine < 0 else ", DMA engine %d" % hit.dma_engine)

    def pause(self):
        """From another thread: go() comes back soon."""
        self.run.machine.paused = True

    def keep(self):
        """Notes the present, for back()."""
        handle = C.c_void_p()
        self.run.machine._check(lib.soma_run_snapshot(
            self.run.handle, self.past[-1] if self.past else None, C.byref(handle)))
        self.past.append(handle)

    def back(self):
        """To the last keep(); False if there is none."""
        if not self.past:
            return False
        self.run.machine._check(lib.soma_run_return(C.byref(self.run.handle), self.past[-1]))
        lib.soma_snapshot_free(self.past.pop())
        self.run._finish(self.run.recorder)
        return True

    def close(self):
        self.run.machine.paused = False
        for snapshot in self.past:
            lib.soma_snapshot_free(snapshot)
        self.past = []


class Ranks:
    """The ranks of a world: `world` is its worlds._Ranks, `runs` their Runs. All stand at one
    moment."""

    left = False

    def __init__(self, world, runs, moments):
        self.world, self.runs = world, runs
        self.heres = [Here(run, m) for run, m in zip(runs, moments)]
        self.tiles, self.tensors = {}, {}
        for here in self.heres:
            self.tiles.update(here.tiles)
            self.tensors.update(dict.fromkeys(here.tensors))
        self.past, self.paused = [], False

    def of(self, core):
        return self.heres[core[0]]

    def moments_of(self, core):
        return self.of(core).moments_of(core[1])

    @property
    def time_ns(self):
        return lib.soma_world_time(self.world.handle) / 1e6

    @property
    def ended(self):
        return all(run.ended for run in self.runs)

    def instructions(self):
        return [((rank, core), *where) for rank, here in enumerate(self.heres)
                for core, *where in here.instructions()]

    def engines(self):
        return [((rank, core), e, "rank %d %s" % (rank, name))
                for rank, here in enumerate(self.heres) for core, e, name in here.engines()]

    def engine(self, core, e):
        return self.of(core).engine(core[1], e)

    def value(self, name, core):
        return self.of(core).value(name, core[1])

    def semaphores(self, core):
        return self.of(core).semaphores(core[1])

    def registers(self, core, e):
        return self.of(core).registers(core[1], e)

    def evaluate(self, text, core, e, recorded):
        return self.of(core).evaluate(text, core[1], e, recorded)

    # ---- How they move ----

    def step(self, core, e):
        self.world.check(callbacks.call(lib.soma_world_step, self.world.handle, L.ISSUE, core[0],
                                        core[1], L.SEQUENCERS.index(e), 0))

    def go(self, stops, writes):
        wanted = [(r, self.heres[r].stop(core, e, pc)) for (r, core), e, pc in stops]
        wanted += [(r, self.runs[r].write_stop(name, core)) for (r, core), name in writes
                   if name in self.heres[r].tiles or name in self.heres[r].tensors]
        numbers = []
        try:
            for r, stop in wanted:
                n = C.c_uint32()
                self.world.check(lib.soma_run_stop_add(self.runs[r].handle, C.byref(stop),
                                                       C.sizeof(stop), C.byref(n)))
                numbers.append((r, n.value))
            self.world.to_the_end(lambda: self.paused or self._hit())
            self.paused = False
            hit = self._hit()
            return self._who(numbers, len(stops), *hit) if hit else None
        finally:
            for r, n in numbers:
                lib.soma_run_stop_remove(self.runs[r].handle, n)

    def _hit(self):
        """(rank, Hit) of the stop that made them stand; None: of none."""
        hit = Hit()
        for r, run in enumerate(self.runs):
            if lib.soma_run_hit(run.handle, 0, C.byref(hit), C.sizeof(hit)) == L.OK:
                return r, hit
        return None

    def _who(self, numbers, nstops, rank, hit):
        which = numbers.index((rank, hit.stop))
        by = hit.from_rank if hit.from_rank >= 0 else rank  # who has pushed
        words = "" if which < nstops else "written by rank %d %s" % (by, self.heres[by].writer(hit))
        engine = L.SEQUENCERS[hit.engine] if hit.engine >= 0 else None
        return which, ((by, hit.core), engine), words

    def pause(self):
        self.paused = True

    def keep(self):
        if self.runs[0].machine.recorder:  # which has seen what would happen again
            return
        handle = C.c_void_p()
        self.world.check(lib.soma_world_keep(
            self.world.handle, self.past[-1] if self.past else None, C.byref(handle)))
        self.past.append(handle)

    def back(self):
        if not self.past:
            return False
        self.world.check(lib.soma_world_return(self.world.handle, self.past[-1]))
        lib.soma_world_snapshot_free(self.past.pop())
        for rank, run in enumerate(self.runs):
            run.handle = C.c_void_p(lib.soma_world_run(self.world.handle, rank))
        return True

    def close(self):
        for snapshot in self.past:
            lib.soma_world_snapshot_free(snapshot)
        self.past = []


class Names(dict):
    """Tiles and tensors of a run by name, for expressions of the editor (`t_2` is a tile of a later
    iteration), and variables of Python that the line had when it was recorded."""

    def __init__(self, here, core, recorded=None):
        super().__init__(np=np)
        self.here, self.core, self.recorded = here, core, recorded or {}

    def __missing__(self, name):
        if name in self.here.tensors or name in self.here.tiles:
            return self.here.value(name, self.core)
        values = self.recorded.get(name)
        if values is None:
            raise KeyError(name)  # it may be a function of Python
        if len(values) > 1:
            raise SomaError("%s was one of %s when the line was recorded" % (
                name, ", ".join(map(repr, values[:8]))))
        return values[0]


def operands(text, here):
    """The tiles and tensors that an instruction's text names."""
    words = re.findall(r"[A-Za-z_][\w.]*", text)
    return [w for w in dict.fromkeys(words) if w in here.tiles or w in here.tensors]
