"""What a run did inside: its critical path, idle gaps, and tiles at a line of the kernel."""
import ctypes as C
import re

from . import arrays, dtypes
from . import lib as L
from .checked import between
from .errors import SomaError
from .lib import lib

_PATH = (None, "data", "sequencer", "transfer", "delay")
_GAP = (None, "semaphore", "sequencer", "end", "meeting")
_MEMORY = (None, "sbuf", "psum")


def _text(b):
    return b.decode("utf-8", "replace") if b else None


def _engine(number):
    return L.SEQUENCERS[number] if 0 <= number < len(L.SEQUENCERS) else None


def need_causes(run):
    run._need_recorder()
    if not run.machine.options.causes:
        raise SomaError("the causes of the run were not kept: make the machine, or the world of "
                        "its rank, with causes=True")


def critical_path(run):
    """The segments of a recorded run's critical path, earliest first."""
    need_causes(run)
    found = _all(L.PathSegment, lambda out, most, n: lib.soma_critical_path(run.handle, out, most,
                                                                           n))
    return [{"kind": _PATH[s.kind], "engine": _engine(s.engine), "core": s.core,
             "name": _text(s.name), "cause": _text(s.cause), "pc": s.pc, "file": _text(s.file),
             "line": s.line or None, "start_ns": s.start / 1e6, "end_ns": s.end / 1e6,
             "dma_engine": None if s.dma_engine < 0 else s.dma_engine,
             "queue": _text(s.queue_name), "semaphore": _text(s.semaphore_name),
             "rank": None if s.rank < 0 else s.rank} for s in found]


def idle_gaps(run, most=None):
    """The engines' idle gaps of a recorded run, the largest first."""
    run._need_recorder()
    found = _all(L.IdleGap, lambda out, n, count: lib.soma_idle_gaps(
        run.recorder.handle, run.program.handle, out, n, count))
    return [{"kind": _GAP[g.kind], "engine": _engine(g.engine), "core": g.core,
             "start_ns": g.start / 1e6, "end_ns": g.end / 1e6, "waited_ns": g.waited / 1e6,
             "semaphore": _text(g.semaphore_name), "condition": _text(g.condition) or None,
             "file": _text(g.file), "line": g.line or None, "pc": g.pc,
             "late_engine": _engine(g.late_engine), "late_core": g.late_core,
             "late_queue": _text(g.queue_name), "late_name": _text(g.late_name),
             "late_file": _text(g.late_file), "late_line": g.late_line or None}
            for g in found[:most]]


def _all(kind, fill):
    n = C.c_uint32()
    _ok(fill(None, 0, C.byref(n)))
    out = (kind * max(n.value, 1))()
    _ok(fill(out, n.value, C.byref(n)))
    return out[:n.value]


def _ok(status):
    if status != L.OK:
        raise SomaError(_text(lib.soma_status_text(status)), status)


# ---- Tiles ----

def tiles(program):
    """{name: soma_tile_info} of a program's tiles."""
    found, origin = {}, C.create_string_buffer(80)
    for i in range(lib.soma_program_tiles(program.handle)):
        t = L.ProgramTile()
        _ok(lib.soma_program_tile(program.handle, i, C.byref(t)))
        _ok(lib.soma_program_tile_origin(program.handle, i, origin, len(origin)))
        t.origin = _text(origin.value)  # "of line 29, iteration 3", or ""
        found[_text(t.name)] = t
    return found


def read_tile(machine, t, core=0):
    """A tile of the machine's memory, as it is now."""
    dtype = dtypes.BY_CODE[t.dtype]
    shape = tuple(t.shape[:t.ndim])
    out, raw = arrays.empty(shape, dtype)
    rows = raw.reshape(shape[0], -1)
    for i in range(shape[0]):
        machine._check(lib.soma_core_memory_read(
            machine.handle, core, t.memory, t.partition + i, t.offset, rows[i].ctypes.data,
            rows[i].nbytes))
    return out


def write_tile(machine, t, values, core=0):
    """Numbers into a tile of the machine's memory; their shape is the tile's, or broadcasts."""
    dtype = dtypes.BY_CODE[t.dtype]
    out, raw = arrays.empty(tuple(t.shape[:t.ndim]), dtype)
    out[...] = arrays.array(values, dtype) if isinstance(out, arrays.RawArray) else values
    rows = raw.reshape(t.shape[0], -1)
    for i in range(t.shape[0]):
        machine._check(lib.soma_core_memory_write(
            machine.handle, core, t.memory, t.partition + i, t.offset, rows[i].ctypes.data,
            rows[i].nbytes))


def tile_named(program, name):
    found = tiles(program)
    if name not in found:
        raise SomaError("the program has no tile %s; it has %s"
                        % (name, ", ".join(found) or "none"))
    return found[name]


def _semaphore(program, name, core):
    number = name if isinstance(name, int) else \
        lib.soma_program_core_semaphore(program.handle, core, name.encode())
    if number < 0:
        raise SomaError("the program has no semaphore %s" % name)
    return number


def engine_number(name, among=L.ENGINES):
    """The number of an engine, among engines or sequencers."""
    if name not in among:
        raise SomaError("there is no engine %r; there are %s" % (name, ", ".join(among)))
    return among.index(name)


class State:
    """What a machine's last run has left, as long as that run is kept; between the steps of a run
    that goes on, what is there now."""

    def tile(self, program, name, core=0):
        """A tile of a program in SBUF or PSUM, by its full name."""
        return read_tile(self, tile_named(program, name), core)

    def set_tile(self, program, name, values, core=0):
        """Writes numbers into a tile."""
        write_tile(self, tile_named(program, name), values, core)

    def semaphore(self, program, name, core=0):
        """The value of a semaphore of a program, by its name or number."""
        value = C.c_uint32()
        self._check(lib.soma_core_semaphore_get(
            self.handle, core, _semaphore(program, name, core), C.byref(value)))
        return value.value

    def set_semaphore(self, program, name, value, core=0):
        """Sets a semaphore, 0 to 2147483647; engines that wait see it."""
        value = between(value, 0, (1 << 31) - 1, "semaphore %s" % name)
        self._check(lib.soma_core_semaphore_set(self.handle, core,
                                                _semaphore(program, name, core), value))

    def set_register(self, engine, number, value, core=0):
        """Sets a register of an engine to an integer of 32 bits."""
        value = between(value, -1 << 31, (1 << 32) - 1, "register %s" % number)
        self._check(lib.soma_core_register_set(self.handle, core, engine_number(engine), number,
                                               value & 0xffffffff))

    def register(self, engine, number, core=0):
        """A register of an engine, as a signed integer."""
        value = C.c_uint32()
        self._check(lib.soma_core_register_get(self.handle, core, engine_number(engine), number,
                                               C.byref(value)))
        return value.value - (1 << 32 if value.value >= 1 << 31 else 0)


def again(built, values, options):
    """A function of a simulated time in femtoseconds, or None for the end: the machine that has run
    the program up to then, with these arguments as they are now."""
    from . import sessions
    from .machine import Machine
    with sessions.paused():
        values = {name: x.copy() if hasattr(x, "flags") else x.numpy()
                  for name, x in values.items()}
    options = {n: v for n, v in options.items() if n not in ("record", "checks")}

    def run(until):
        machine = Machine(built.target, **options)
        if until is None:
            machine.run(built.program, values)
        else:
            machine.stopped = machine.run_to(built.program, values, until)
        return machine
    return run


def _named(found, name):
    """The tiles of a name: `t`, and t_2, t_3 ... of later iterations."""
    pattern = re.compile(re.escape(name) + r"(_\d+)?")
    names = [n for n in found if pattern.fullmatch(n)]
    if not names:
        raise SomaError("the program has no tile %s; it has %s"
                        % (name, ", ".join(found) or "none"))
    return names


def moments(run, at, core):
    """[(femtoseconds at which it was done, operands)] of the instructions of a line, in order of
    time."""
    table = run.table("Instruction")
    file, _, line = str(at).rpartition(":")
    if not line.isdecimal():
        raise ValueError("at=%r: expected a line, as in \"kernel.py:33\"" % (at,))
    end = table["start_fs"] + table["duration_fs"]
    places = [p.rpartition(":") for p in table["nki_source_location"]]
    rows = [i for i, (f, _, n) in enumerate(places) if n == line and (
        f == file or f.endswith("/" + file) or not file) and table["pcore_idx"][i] == core]
    done = _ends_of_transfers(run, table) if rows else {}
    return sorted((max(int(end[i]), done.get(i, 0)), table["operands"][i]) for i in rows)


def _ends_of_transfers(run, table):
    """{row of a DMA instruction: when its last packet ended}."""
    if "packet_aggregation_id" not in table:
        return {}
    packets = run.table("DmaPacket")
    if not len(packets.get("packet_aggregation_id", ())):
        return {}
    ends = {}
    for which, start, took in zip(packets["packet_aggregation_id"], packets["start_fs"],
                                  packets["duration_fs"]):
        ends[which] = max(ends.get(which, 0), int(start + took))
    return {i: ends[which] for i, which in enumerate(table["packet_aggregation_id"])
            if which in ends}


def tile_of(run, again, name, at, nth, core):
    """See KernelRun.tile. again(until): the machine that has run the program again, up to that
    time."""
    found = tiles(run.program)
    names = _named(found, name)
    if at is None:
        if len(names) > 1 or nth != 1:
            raise SomaError("there are %s: give the line at which one is meant, at=\"FILE:LINE\""
                            % ", ".join(names))
        return read_tile(again(None), found[names[0]], core)
    when = [(end, [n for n in names if re.search(r"\b%s\b" % re.escape(n), operands)])
            for end, operands in moments(run, at, core)]
    when = [(end, there) for end, there in when if there]
    if not when:
        raise SomaError("no instruction of %s reads or writes %s" % (at, name))
    if not 1 <= nth <= len(when):
        raise SomaError("nth=%r: %d instructions of %s read or write %s" % (nth, len(when), at,
                                                                          name))
    end, there = when[nth - 1]
    return read_tile(again(end), found[there[0]], core)
