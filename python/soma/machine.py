"""Machines, programs and runs.

    m = soma.Machine("trn2", checks="all")
    p = m.assemble(open("prog.s").read(), "prog.s")
    run = m.run(p, {"x": x})
    run.out["y"], run.stats.time_ns, run.findings

Times are in nanoseconds where a name says so, else in femtoseconds of simulated time.
"""
import ctypes as C
import operator
import time

from . import arrays, callbacks, debug, dtypes, files, inside, moves, show
from . import lib as L
from .checked import between
from .devices import DeviceArray, common
from .errors import DeadlockError, SomaError, SomaFault
from .figures import RunStats, Told
from .lib import lib
from .targets import need_target

def _check_names():
    names = []
    while (name := lib.soma_check_name(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


CHECKS = _check_names()


def check_mask(checks):
    """The bits of soma_options.checks: a number, "all", or names as a list or separated by
    commas."""
    every = (1 << len(CHECKS)) - 1
    if not checks:
        return 0
    if isinstance(checks, int):
        if not 0 < checks <= every:
            raise ValueError("checks=%d: as a number it is a sum of bits, 1 to %d"
                             % (checks, every))
        return checks
    wanted = checks.split(",") if isinstance(checks, str) else list(checks)
    mask = 0
    for name in wanted:
        if name == "all":
            mask |= every
        elif name in CHECKS:
            mask |= 1 << CHECKS.index(name)
        else:
            raise ValueError("no check is called %r; there are all, %s" % (name, ", ".join(CHECKS)))
    return mask


# The options of soma_options that callers set by name; others have an argument of their own, or are
# pointers.
_OPTIONS = {name: kind for name, kind in L.Options._fields_
            if name in ("max_instructions", "max_time", "max_seconds", "max_cpu_seconds",
                        "max_hbm_bytes", "saturate", "simd", "rounding_seed", "costs",
                        "timing_only", "causes", "schedule", "threads")}
# Of Machine, which takes some of them by name.
OPTION_NAMES = ("target", "checks", "record", "print", "twins") + tuple(sorted(_OPTIONS))
MOST_THREADS = 256


def _set_option(o, name, value):
    kind = _OPTIONS.get(name)
    most = (1 << (63 if kind is C.c_uint64 else 31)) - 1
    if kind is None:
        raise TypeError("there is no option %s; there are %s" % (name, ", ".join(OPTION_NAMES)))
    if name == "schedule" and isinstance(value, str) and value == "all":
        value = L.SCHEDULE_ALL
    elif kind is C.c_char_p:
        if name == "costs" and isinstance(value, dict):
            value = "".join("%s %s\n" % row for row in value.items())
        if not isinstance(value, str):
            raise TypeError("%s=%r: expected a string" % (name, value))
        value = value.encode()
    elif not isinstance(value, (int, float) if kind is C.c_double else int):
        a = "a number" if kind is C.c_double else "a whole number"
        a += ', or "all"' if name == "schedule" else ""
        raise TypeError("%s=%r: expected %s" % (name, value, a))
    elif not 0 <= value <= most:
        raise ValueError("%s=%r: it must be 0 to %d" % (name, value, most))
    elif name == "threads" and value > MOST_THREADS:
        raise ValueError("threads=%r: it must be 1 to %d, or 0 for all" % (value, MOST_THREADS))
    setattr(o, name, value)


def _text(b):
    return b.decode("utf-8", "replace") if b else ""


class Unsignalled:
    """Of a race between two cores that no signal orders: `tensor`, that both touch, or None; the
    `core` of the finding, which has to come after the `other_core` at (`other_file`, `other_line`);
    text[fix[0]:fix[1]] of the finding says which signal is missing."""

    def __init__(self, u, text):
        self.tensor = _text(u.tensor) or None
        self.core, self.other_core = u.core, u.other_core
        self.other_file, self.other_line = _text(u.other_file) or None, u.other_line
        self.fix = len(_text(text[:u.fix])), len(_text(text[:u.fix_end]))


class Finding:
    """What a check found. `check` is its name, `text` the full finding, in several lines; `file`,
    `line` and `core` are its place, other_file and so on the earlier of two; `unsignalled` is an
    Unsignalled or None; `ranks` has those of a world that have it, else None."""

    __slots__ = ("check", "engine", "pc", "file", "line", "core", "time", "text", "other_file",
                 "other_line", "other_core", "unsignalled", "ranks")

    def __init__(self, check, text, file=None, line=0):
        self.check, self.text, self.file, self.line = check, text, file, line
        self.engine = self.other_file = self.unsignalled = self.ranks = None
        self.pc = self.time = self.other_line = self.core = self.other_core = 0

    @classmethod
    def of_run(cls, handle, number):
        """Finding `number` of a run; None past the last."""
        f, other, u = L.Finding(), L.Place(), L.Unsignalled()
        if lib.soma_run_finding(handle, number, C.byref(f)) != L.OK:
            return None
        self = cls(_text(lib.soma_check_name(f.check)), _text(f.text)[:-1], _text(f.file) or None,
                   f.line)
        self.engine = L.ENGINES[f.engine] if 0 <= f.engine < 5 else None
        self.pc, self.time, self.core = f.pc, f.time, lib.soma_run_finding_core(handle, number)
        if lib.soma_run_finding_other(handle, number, C.byref(other), C.sizeof(other)) == L.OK:
            self.other_file, self.other_line = _text(other.file) or None, other.line
            self.other_core = other.core
        if lib.soma_run_unsignalled(handle, number, C.byref(u), C.sizeof(u)) == L.OK:
            self.unsignalled = Unsignalled(u, f.text)
        return self

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        return show.of_finding(self)


def _findings(handle):
    found = show.Findings()
    while (finding := Finding.of_run(handle, len(found))) is not None:
        found.append(finding)
    return found


class Schedules:
    """Whether a run would do the same under every legal timing: `verdict` is "same", "depends" or
    "not decided", `states` how many were examined, `text` says where it depends on timing."""

    def __init__(self, s):
        self.verdict = ("same", "depends", "not decided")[s.verdict]
        self.states, self.text = s.states, _text(s.text)

    def __repr__(self):
        return self.text


class Program(L.Owner):
    """A program of a machine. Freed with the object. texts: of its source files, by name; texts
    that are missing there may be read from the files. None: the program comes from elsewhere, and
    its files are not read."""

    _free = "soma_program_free"
    _instead = "bytes() of it is what a machine's load() takes"

    def __init__(self, machine, handle, texts=None):
        self.machine, self.handle, self._tensors, self.texts = machine, handle, None, texts
        self.numbers = {}  # of the tensors, once they are known
        self.unread = None  # what soma.checking has found

    @property
    def target(self):
        return _text(lib.soma_program_target(self.handle))

    @property
    def tensors(self):
        """{name: (DType, shape, role)} in order of declaration; role is "temp", "input", "output"
        or "const". If the first dimension is left to the run, it is given here as the most that it
        may be."""
        if self._tensors is None:
            self._tensors = self._find_tensors()
        return dict(self._tensors)

    def tensor(self, name):
        """(DType, shape, role) of a tensor. KeyError if none exists."""
        if self._tensors is None:
            self._tensors = self._find_tensors()
        return self._tensors[name]

    def _find_tensors(self):
        found = {}
        for i in range(lib.soma_program_tensors(self.handle)):
            t = L.TensorInfo()
            lib.soma_program_tensor(self.handle, i, C.byref(t))
            self.numbers[_text(t.name)] = i
            found[_text(t.name)] = (dtypes.BY_CODE[t.dtype], tuple(t.shape[:t.ndim]),
                                    ("temp", "input", "output", "const")[t.role])
        return found

    def _block(self, function):
        data, n = C.c_void_p(), C.c_size_t()
        self.machine._check(function(self.machine.handle, self.handle, C.byref(data), C.byref(n)))
        return L.take_bytes(data, n)

    def source(self):
        """The program as assembly."""
        return self._block(lib.soma_program_print).decode("utf-8", "replace")

    def bytes(self):
        """The program as the bytes of a .sbc file."""
        return self._block(lib.soma_program_save)

    def lint(self):
        """Warnings of the static checks, "" if none exist."""
        d = C.c_void_p()
        self.machine._check(lib.soma_lint(self.machine.handle, self.handle, C.byref(d)))
        return _take_diagnostics(d)


def _take_diagnostics(d):
    text = _text(lib.soma_diagnostics_text(d)) if d else ""
    if d:
        lib.soma_diagnostics_free(d)
    return text.rstrip("\n")


class _Result(L.Owner):
    """The memory of a tensor that a run handed over, in a form that NumPy takes; freed with the
    last array over it."""

    _free = "soma_result_free"
    _instead = "the array over it can"

    def __init__(self, handle, size):
        self.handle = handle
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,),
                                    "data": (lib.soma_result_data(handle), False)}


class Run(moves.Moves, Told, L.Owner):
    """A run that has ended, or one that goes on (moves.py). `out` has the output tensors, `stats`,
    `findings` (of the checks) and `findings_total`; `fetch(name)` copies any tensor. The arrays of
    `out` are the run's own memory: a later fetch() sees what is written there."""

    _free = "soma_run_free"
    _instead = "keep the arrays of its `out`, which can"

    def __init__(self, machine, program):
        super().__init__()
        self.machine, self.program = machine, program
        self.recorder, self.made_by = None, "Machine(%r" % machine.target
        self.placed = {}  # outputs that stay on the machine's device, by name

    def _finish(self, recorder):
        """Reads what it found, once it has ended."""
        handle, self.recorder = self.handle, recorder
        stats = L.Stats()
        lib.soma_run_stats(handle, C.byref(stats), C.sizeof(stats))
        self.stats = RunStats(stats)
        if recorder:
            lib.soma_recorder_stats(recorder.handle, C.byref(stats), C.sizeof(stats))
        self.findings_total = lib.soma_run_findings(handle)
        self.findings = _findings(handle) if self.findings_total else []
        self._schedules = self._out = None

    @property
    def time_ns(self):
        return self.stats.time_ns

    @property
    def schedules(self):
        """Of a run with schedule="all", what every legal timing does; else None."""
        if self._schedules is None:
            s = L.Schedules()
            status = lib.soma_run_schedules(self.handle, C.byref(s), C.sizeof(s))
            if status == L.NOMEM:
                raise MemoryError("no memory to judge all schedules")
            self._schedules = Schedules(s) if status == L.OK else None
        return self._schedules

    @property
    def out(self):
        if self._out is None:
            self._out = {name: self.placed[name] if name in self.placed else self.take(name)
                         for name, (_, _, role) in self.program.tensors.items() if role == "output"}
        return self._out

    def shape(self, name):
        """The shape that a tensor of the program has in this run. KeyError if none exists."""
        self.program.tensor(name)
        t = L.TensorInfo()
        lib.soma_run_tensor(self.handle, self.program.numbers[name], C.byref(t))
        return tuple(t.shape[:t.ndim])

    def fetch(self, name):
        """A tensor of the program as an array of its type and shape."""
        dtype, shape = self.program.tensor(name)[0], self.shape(name)
        array, buffer = arrays.empty(shape, dtype)
        self.machine._check(lib.soma_fetch(self.handle, name.encode(), buffer.ctypes.data,
                                           buffer.nbytes))
        return array

    def take(self, name):
        """The run's own memory of a tensor as an array, without a copy."""
        dtype, shape = self.program.tensor(name)[0], self.shape(name)
        x = C.c_void_p()
        self.machine._check(lib.soma_take(self.handle, name.encode(), C.byref(x)))
        size = dtype.size
        for n in shape:
            size *= n
        return arrays.over(_Result(x, size), shape, dtype)

    def _need_recorder(self):
        if not self.recorder:
            raise SomaError("the run was not recorded: soma.%s, record=True)" % self.made_by)

    def _written(self, function, *arguments):
        c = L.Collect()
        status = callbacks.call(function, *arguments, c.fn, None)
        if status != L.OK:
            raise SomaError(_text(lib.soma_status_text(status)), status)
        return c.text()

    def trace(self):
        """The trace as JSON that chrome://tracing and Perfetto read."""
        self._need_recorder()
        return self._written(lib.soma_write_chrome, self.recorder.handle, self.program.handle)

    def timeline(self, width=0):
        """Rows of engines and queues over time, as text."""
        self._need_recorder()
        return show.Text(self._written(
            lib.soma_write_timeline, self.recorder.handle, self.program.handle,
            between(width, 0, 1000, "the width of a timeline")))

    def page(self, path=None, *, title="Soma"):
        """A page for a browser that shows the run, without other files, as text; written to a file
        where `path` is given, compressed where that ends in .gz."""
        self._need_recorder()
        o = L.PageOptions(C.sizeof(L.PageOptions), title.encode())
        texts = self.program.texts
        sources = L.Sources(texts) if texts is not None else None
        if sources:
            o.source = sources.fn
        text = self._written(lib.soma_write_page, self.recorder.handle, self.program.handle,
                             self.handle, C.byref(o))
        if path is not None:
            files.write(path, files.named(path, text))
        return text

    def explain(self):
        """Where the time went: the critical path, and the largest gaps."""
        inside.need_causes(self)
        return show.Text(self._written(lib.soma_write_explanation, self.handle,
                                       self.recorder.handle))


class _Recorder(L.Owner):
    _free = "soma_recorder_free"
    _instead = "record another run"

    def __init__(self):
        super().__init__()
        if lib.soma_recorder_new(None, C.byref(self.handle)) != L.OK:
            raise MemoryError("no memory for a recorder")


def _to_the_end(r, machine, limit=None, stops=False):
    """Runs in slices of simulated time that take some hundredths of a second: between them Python
    handles signals, such as Ctrl-C. Until a time in femtoseconds, or one of the run's stops, if
    that is asked for. Returns the status of the last slice."""
    until = step = 50 * 10**9
    while until < (1 << 63 if limit is None else limit):
        if machine.stopped:
            raise SomaError("stopped by another thread")
        if stops and machine.paused:
            machine.paused = False
            return L.OK
        began = time.perf_counter()
        status = callbacks.call(lib.soma_run_until, r, L.TIME, 0, until)
        if status != L.OK or lib.soma_run_ended(r) or stops and lib.soma_run_hits(r):
            return status
        took = time.perf_counter() - began
        step = step * 2 if took < 0.05 else max(step // 2, 1) if took > 0.2 else step
        until += step
    return callbacks.call(lib.soma_run_until, r, L.END if limit is None else L.TIME, 0, limit or 0)


class Machine(moves.Starts, inside.State, L.Owner):
    """One emulated core. target: "trn1", "inf2", "trn2" or "trn3", or a
    hypothetical machine (see soma.targets); options as in soma_options:
    checks, schedule, saturate, max_instructions, max_seconds, max_cpu_seconds, timing_only, threads
    (of the host, 0 for all its cores), twins (False: the race check also reports that both cores
    write the same bytes from one line), record (keeps what the trace and the page need), print (a
    function of text and whether it is for standard error)."""

    _free = "soma_machine_free"
    _instead = "make another with the same options"
    stopped = False  # another thread sets it, and a run soon ends
    paused = False  # the same, and a run that may stop soon stands

    def __init__(self, target=None, record=False, checks=None, print=None, twins=True, **options):
        o = L.Options()
        o.size = C.sizeof(o)
        if isinstance(target, str) and set("=,") & set(target):
            o.target = target.encode()  # the library reads it
        else:
            o.target = need_target(target).encode() if target else None
        o.checks = check_mask(checks)
        o.no_twins = not twins
        for name, value in options.items():
            _set_option(o, name, value)
        self.recorder = None
        if record:
            self.recorder = _Recorder()
            o.event = C.cast(lib.soma_recorder_event, C.c_void_p).value
            o.event_ud, o.causes = self.recorder.handle.value, options.get("causes", 1)
        if print is not None:
            o.print = L.PRINT(callbacks.wrap(lambda ud, err, text, n: print(
                C.string_at(text, n).decode("utf-8", "replace"), bool(err))))
        self.options = o
        handle = C.c_void_p()
        self.handle = None
        why = C.create_string_buffer(512)
        o.error, o.error_size = C.addressof(why), len(why)
        status = lib.soma_machine_new(C.byref(o), C.byref(handle))
        o.error, o.error_size = None, 0
        if status != L.OK:
            raise SomaError("no machine: %s" % _text(why.value), status)
        self.handle = handle

    @property
    def target(self):
        return _text(lib.soma_target(self.handle))

    def _check(self, status):
        if status != L.OK:
            raise SomaError(_text(lib.soma_error(self.handle)) or
                            _text(lib.soma_status_text(status)), status)

    def clear(self):
        """Sets SBUF and PSUM to zero, which keep what runs have left there."""
        self._check(lib.soma_machine_clear(self.handle))

    def assemble(self, text, name="program.s", defines=()):
        """A program from assembly. SomaError has the diagnostics."""
        if not isinstance(text, str):
            raise TypeError("the source is a string, not %s" % type(text).__name__)
        o = L.AssembleOptions()
        o.size = C.sizeof(o)
        if defines:
            o.defines = (C.c_char_p * len(defines))(*[d.encode() for d in defines])
            o.ndefines = len(defines)
        p, d = C.c_void_p(), C.c_void_p()
        data = text.encode()
        status = lib.soma_assemble(self.handle, data, len(data), name.encode(), C.byref(o),
                                   C.byref(p), C.byref(d))
        report = _take_diagnostics(d)
        if status == L.SYNTAX:
            raise SomaError(report, status)
        self._check(status)
        return Program(self, p, {name: text})

    def load(self, data):
        """A program from the bytes of a .sbc file."""
        if not isinstance(data, bytes):
            raise TypeError("expected the bytes of a program file, not %s" % type(data).__name__)
        p = C.c_void_p()
        self._check(lib.soma_program_load(self.handle, data, len(data), C.byref(p)))
        return Program(self, p)

    def run(self, program, inputs=None, log=None, rows=None):
        """Runs a program to its end: inputs by name, arrays of the program's types and shapes.
        log: a function that gets a line of text for each instruction that is done. rows: {name:
        size} of first dimensions that are left to the run and that no input gives. SomaFault,
        DeadlockError or SomaError when it does not end well."""
        if self.options.event and self.recorder is None:
            raise SomaError("a machine records one run: make another for the next")
        run = Run(self, program)
        try:
            if self.recorder:  # a run that was stopped may have left events there
                lib.soma_recorder_clear(self.recorder.handle)
            _keep = self._start(run, inputs, rows)
            status = self._to_the_end(run, log)
            if status not in (L.OK, L.CHECK):
                error = self._ended(run.handle, status)
                error.findings = _findings(run.handle)
                raise error
            recorder, self.recorder = self.recorder, None
            run._finish(recorder)
        except BaseException:  # Ctrl-C as well: the machine is free for the next run
            run.give_back()
            raise
        return run

    def _to_the_end(self, run, log):
        if log is None:
            return _to_the_end(run.handle, self)
        lines = L.Log(run.program.handle, log)
        self._check(lib.soma_run_log(run.handle, lines.fn, None))
        try:
            return _to_the_end(run.handle, self)
        finally:
            lib.soma_run_log(run.handle, L.LOG(), None)

    def debug(self, program, inputs=None, commands=None, rows=None):
        """The same under the debugger, which reads commands from the lines of `commands` first, if
        given, and then from standard input. Returns a Run, or None if it was left before its end.
        """
        if self.options.event:
            raise SomaError("a run that is recorded cannot go back: debug it without record=True")
        run = self.start(program, inputs, rows)
        saved = run.save()
        run.give_back()
        left = debug.session(saved, commands, program.texts)
        if left is None:
            return None
        run = self.resume(left)
        if not run.ended:
            run.give_back()
            return None
        return run

    def run_to(self, program, inputs, time_fs):
        """Starts a run and stops it at a simulated time: what the machine's memories then hold is
        there until the next run. Gives the run, which cannot go on."""
        run = Run(self, program)
        _keep = self._start(run, inputs, None)
        status = callbacks.call(lib.soma_run_until, run.handle, L.TIME, 0, time_fs)
        if status not in (L.OK, L.CHECK):
            raise self._ended(run.handle, status)
        return run

    def _start(self, run, inputs, rows):
        """Brings a run to time 0; what must live as long as it is bound."""
        run.placed, keep = self.bind(run.program, inputs, rows)
        self._check(lib.soma_run_start(self.handle, run.program.handle, C.byref(run.handle)))
        return keep

    def bind(self, program, inputs, rows=None):
        """Gives a program its inputs: (outputs on this machine's device, what must live on)."""
        if not isinstance(program, Program):
            raise TypeError("expected a program of assemble() or load(), not %s" %
                            type(program).__name__)
        if inputs is not None and not hasattr(inputs, "items"):
            raise TypeError("expected the inputs as a dict of arrays, {\"x\": x}, not %s" %
                            type(inputs).__name__)
        keep, inputs = [], dict(inputs or {})
        lib.soma_unbind(self.handle, program.handle)
        placed = self._place(program, inputs)
        for name, value in (inputs | placed if placed else inputs).items():
            if isinstance(value, DeviceArray) and value.device.machine is self:
                self._check(lib.soma_bind_tensor(self.handle, program.handle, name.encode(),
                                                 value.handle))
                continue
            try:
                data, dtype = arrays.host_array(value)
            except TypeError as e:
                raise TypeError("input %s: %s" % (name, e)) from None
            keep.append(data)
            shape = (C.c_int64 * max(data.ndim, 1))(*(data.shape or (1,)))
            self._check(lib.soma_bind(self.handle, program.handle, name.encode(), dtype.code,
                                      max(data.ndim, 1), shape, data.ctypes.data))
        for name, n in (rows or {}).items():
            n = between(operator.index(n), -1 << 63, (1 << 63) - 1, "rows of %s" % name)
            self._check(lib.soma_bind_rows(self.handle, program.handle, name.encode(), n))
        return placed, keep

    def _place(self, program, inputs):
        """Tensors on this machine's device for a program's outputs by name, if all inputs are
        there; else none."""
        on = common(inputs.values())
        if on is None or on.machine is not self:
            return {}
        return {name: on.zeros(shape, dtype) for name, (dtype, shape, role) in
                program.tensors.items() if role == "output"}

    def _ended(self, r, status):
        f = L.Fault()
        lib.soma_run_fault(r, C.byref(f))
        text = _text(f.text) or _text(lib.soma_error(self.handle))
        where = "%s:%d: " % (_text(f.file), f.line) if f.file else ""
        if f.instruction:
            text += "\n  " + _text(f.instruction)
        kind = {L.FAULT: SomaFault, L.DEADLOCK: DeadlockError}.get(status, SomaError)
        return kind(where + text, status)


def run(source, inputs=None, target=None, rows=None, **options):
    """Assembles and runs a program: `soma.run(text, {"x": x}).out["y"]`."""
    m = Machine(target, **options)
    return m.run(m.assemble(source), inputs, rows=rows)
