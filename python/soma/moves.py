"""Runs in steps: started at time 0, moved on, looked at, saved, resumed, taken back.

    run = machine.start(program, {"x": x})
    run.until_line("square.s:14")
    machine.tile(program, "t"), run.engine("scalar"), print(run.waits())
    run.save("half.run")
    run.go_on().out["y"]
"""
import ctypes as C

from . import callbacks, files, inside
from . import lib as L
from .checked import femtoseconds
from .errors import SomaError
from .inside import _text, engine_number
from .lib import Stop, lib

_PC, _WRITE = 1, 5  # soma_stop_kind
_STATUS = ("ready", "waiting", "ring", "halted", "meeting", "idle", "leaving", "crowded")


def instructions(program):
    """(core, number of the engine, pc) of each instruction."""
    for core in (0, 1):
        for e in range(len(L.ENGINES)):
            for pc in range(lib.soma_program_instructions(program.handle, core, e)):
                yield core, e, pc


def text_of(program, core, e, pc):
    """An instruction as assembly; "" if there is none."""
    data, n = C.c_void_p(), C.c_size_t()
    status = lib.soma_instruction_text(program.handle, core, e, pc, C.byref(data), C.byref(n))
    return L.take_bytes(data, n).decode("utf-8", "replace") if status == L.OK else ""


class Moves:
    """What a Run has while it goes on. Methods that move it give the run; errors of the program are
    raised as by Machine.run, and end it."""

    @property
    def _live(self):
        if not self.handle:
            raise SomaError("the run was given back")
        return self.handle

    @property
    def ended(self):
        return bool(lib.soma_run_ended(self._live))

    def _moved(self, status):
        if status not in (L.OK, L.CHECK):
            error = self.machine._ended(self._live, status)
            self._finish(self.recorder)
            error.findings = self.findings
            raise error
        self._finish(self.recorder)
        return self

    def step(self, engine=None, core=0):
        """Until one more event has happened; or until that engine has issued its next instruction.
        """
        if engine is None:
            return self._moved(callbacks.call(lib.soma_run_until, self._live, 1, 0, 0))
        return self._moved(callbacks.call(lib.soma_core_issue, self._live, core,
                                          engine_number(engine, L.SEQUENCERS)))

    def until(self, time_ns):
        """Until that simulated time, or the end."""
        from .machine import _to_the_end
        return self._moved(_to_the_end(self._live, self.machine,
                                       femtoseconds(time_ns, "time_ns")))

    def go_on(self):
        """To the end."""
        from .machine import _to_the_end
        return self._moved(_to_the_end(self._live, self.machine))

    def until_line(self, line):
        """Until an instruction of that line can issue, or the end: "square.s:14", or a number if
        the program has one file."""
        file, _, number = str(line).rpartition(":")
        if not number.isdecimal():
            raise ValueError("until_line(%r): expected a line, as in \"square.s:14\"" % (line,))
        return self._until_stop(list(self._of_line(file, int(number))) or self._no_line(line))

    def until_written(self, name, core=0):
        """Until an instruction or a share of a transfer has written into that tile or tensor, or
        the end."""
        return self._until_stop([self.write_stop(name, core)])

    def write_stop(self, name, core=0):
        """The stop at each write into that tile or tensor."""
        stop = Stop(kind=_WRITE, core=core)
        if name in self.program.tensors:
            stop.tensor, stop.bytes = name.encode(), self.fetch(name).nbytes
        else:
            t = inside.tile_named(self.program, name)
            stop.memory, stop.partition, stop.partitions = t.memory, t.partition, t.shape[0]
            stop.offset = t.offset
            stop.bytes = inside.read_tile(self.machine, t, core).nbytes // t.shape[0]
        return stop

    def _of_line(self, file, number):
        for core, e, pc in instructions(self.program):
            i = self._instruction(core, e, pc)
            name = _text(i.file) or ""
            if i.line == number and (not file or name == file or name.endswith("/" + file)):
                yield Stop(kind=_PC, engine=e, pc=pc, core=core)

    def _instruction(self, core, engine, pc):
        i = L.Instruction()
        lib.soma_program_instruction(self.program.handle, core, engine, pc, C.byref(i),
                                     C.sizeof(i))
        return i

    def _no_line(self, line):
        found = {(_text(i.file), i.line) for i in map(lambda x: self._instruction(*x),
                                                      instructions(self.program)) if i.line}
        lines = sorted("%s:%d" % place for place in found)
        raise SomaError("no instruction comes from line %s; there are %s%s" % (
            line, ", ".join(lines[:8]) or "none", " ..." if len(lines) > 8 else ""))

    def _until_stop(self, stops):
        from .machine import _to_the_end
        self.stop_numbers = numbers = []
        try:
            for stop in stops:
                n = C.c_uint32()
                self.machine._check(lib.soma_run_stop_add(self._live, C.byref(stop),
                                                          C.sizeof(stop), C.byref(n)))
                numbers.append(n.value)
            return self._moved(_to_the_end(self._live, self.machine, stops=True))
        finally:
            for n in numbers:
                lib.soma_run_stop_remove(self._live, n)

    def engine(self, name, core=0):
        """What an engine does: a dict of `status` ("ready", "waiting", "ring": for a place in a
        ring, "halted", "meeting": for the other core), its next instruction (`pc`, `file`, `line`,
        `name`), `instructions` issued, `in_flight`, and, if it waits, `semaphore`, `condition`,
        `want`, `have`, `since_ns`."""
        s, e = L.EngineState(), engine_number(name, L.SEQUENCERS)
        self.machine._check(lib.soma_core_engine(self._live, core, e, C.byref(s), C.sizeof(s)))
        i = self._instruction(core, e, s.pc)
        found = {"status": _STATUS[s.status], "pc": s.pc, "file": _text(i.file),
                 "line": i.line or None, "name": _text(i.name), "instructions": s.instructions,
                 "in_flight": s.in_flight}
        if s.status == 1:
            p = self.program.handle
            found.update(semaphore=_text(lib.soma_program_semaphore_name(p, core, s.semaphore)),
                         condition=_text(s.condition), want=s.want, have=s.have,
                         since_ns=s.since / 1e6)
        return found

    def transfers(self, core=0):
        """The transfers that are not complete, a dict each: `engine`, `pc`, `file`, `line` of the
        trigger, `queue`, `semaphore`, `shares`, `bytes` of these, `moved`."""
        found, t, p = [], L.Transfer(), self.program.handle
        while lib.soma_core_transfer(self._live, core, len(found), C.byref(t),
                                     C.sizeof(t)) == L.OK:
            i = self._instruction(core, t.engine, t.pc)
            found.append({
                "engine": L.SEQUENCERS[t.engine], "pc": t.pc, "file": _text(i.file),
                "line": i.line or None, "shares": t.shares, "bytes": t.bytes, "moved": t.moved,
                "queue": _text(lib.soma_program_queue_name(p, core, t.queue)),
                "semaphore": _text(lib.soma_program_semaphore_name(p, t.semaphore_core,
                                                                   t.semaphore))
                if t.semaphore >= 0 else None})
        return found

    def waits(self):
        """Which engine waits for what, and which instructions can still change it."""
        return self._written(lib.soma_write_waits, self._live).strip("\n")

    def save(self, path=None):
        """The whole state of the run as bytes, or in a file: Machine.resume goes on with it, and so
        does `soma --resume FILE`, for example with --debug."""
        data, n = C.c_void_p(), C.c_size_t()
        status = lib.soma_run_save(self._live, C.byref(data), C.byref(n))
        if status == L.ARG:
            raise SomaError("the run cannot be saved: it has ended with a fault, or its machine "
                            "has another run", status)
        self.machine._check(status)
        saved = L.take_bytes(data, n)
        if path is None:
            return saved
        files.write(path, saved)
        return path


class Starts:
    """Of a Machine: runs to move on in steps."""

    def _one_record(self):
        if self.options.event and self.recorder is None:
            raise SomaError("a machine records one run: make another for the next")

    def start(self, program, inputs=None, rows=None):
        """A run at time 0, to be moved on by its methods. A machine has one run at a time: `del
        run`, or its give_back(), ends one that is not over."""
        from .machine import Run
        self._one_record()
        run = Run(self, program)
        try:
            run.keep = self._start(run, inputs, rows)
            recorder, self.recorder = self.recorder, None
            run._finish(recorder)
        except BaseException:
            run.give_back()
            raise
        return run

    def resume(self, saved):
        """The run that Run.save or `soma --save FILE` has saved: its bytes, or the file's path. All
        is as if it had never been saved. Its `program` is a new one."""
        from .machine import Program, Run
        self._one_record()
        if not isinstance(saved, bytes):
            with open(saved, "rb") as f:
                saved = f.read()
        run = Run(self, Program(self, C.c_void_p()))
        try:
            self._check(lib.soma_run_resume(self.handle, saved, len(saved),
                                            C.byref(run.program.handle), C.byref(run.handle)))
            recorder, self.recorder = self.recorder, None
            run._finish(recorder)  # its recording begins here
        except BaseException:
            run.give_back()
            raise
        return run
