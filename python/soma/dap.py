"""`soma-nki --dap`: the Debug Adapter Protocol on standard input and output, so that an editor
stops at lines of kernels, shows tiles, and goes on and back.

The script runs in the main thread. A kernel call is a run in steps (moves.py); while it stands,
another thread answers what the editor asks. What moves the run goes to the main thread through a
queue. An engine of a core is a thread of the protocol.
"""
import ctypes as C
import json
import os
import queue
import re
import sys
import threading
import traceback

import numpy as np

from . import inside, look
from . import lib as L
from .errors import SomaError
from .lib import lib
from .machine import Machine
from .moves import Hit, Stop

_SCRIPT = 99  # the protocol's thread of the script, beside those of engines
_SCOPES = ("Operands", "Tiles", "Tensors", "Semaphores", "Registers")
_MOVES = ("continue", "next", "stepIn", "stepOut", "stepBack", "reverseContinue")
_SHOWN = 200  # of a list of variables


class _Refused(Exception):
    """A request that cannot be answered; its text goes to the editor."""


def _thread(core, engine):
    return 1 + core * len(L.ENGINES) + engine


def _of_thread(number):
    return divmod(number - 1, len(L.ENGINES))


def _value(x):
    """An array on one line, with its type."""
    text = " ".join(np.array2string(np.asarray(x, np.float32) if x.dtype.kind == "V" else x,
                                    threshold=8, edgeitems=2).split())
    return "%s%s %s" % (getattr(x, "soma_dtype", x.dtype), list(x.shape), text)


class _Names(dict):
    """Tiles and tensors of a run by name, for expressions of the editor; `t_2` is a tile of a later
    iteration."""

    def __init__(self, run, tiles, core):
        super().__init__(np=np)
        self.run, self.tiles, self.core = run, tiles, core

    def __missing__(self, name):
        if name in self.run.program.tensors:
            return self.run.fetch(name)
        if name in self.tiles:
            return inside.read_tile(self.run.machine, self.tiles[name], self.core)
        raise KeyError(name)  # it may be a function of Python


class _Output:
    """Standard output of the script: the editor's."""

    encoding = "utf-8"

    def __init__(self, server, category):
        self.server, self.category = server, category

    def write(self, text):
        self.server.event("output", category=self.category, output=text)
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


class Server:
    """One session with an editor."""

    def __init__(self, read, write):
        self.read, self.written, self.number = read, write, 0
        self.lock, self.moves, self.ready = threading.Lock(), queue.Queue(), threading.Event()
        self.lines = {}     # {path: {line: condition}} that the editor has set
        self.run = None     # that stands
        self.moving = None  # the machine of one that goes on
        self.tiles, self.past, self.launched = {}, [], None

    # ---- Messages ----

    def _send(self, **message):
        with self.lock:
            self.number += 1
            data = json.dumps(dict(message, seq=self.number)).encode()
            self.written.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            self.written.flush()

    def event(self, name, **body):
        self._send(type="event", event=name, body=body)

    def _message(self):
        size = 0
        for line in iter(self.read.readline, b""):
            key, _, value = line.decode("ascii", "replace").partition(":")
            if key.lower() == "content-length":
                size = int(value)
            if not line.strip():
                return json.loads(self.read.read(size))
        return None

    def answer(self):
        """The thread that answers the editor, until it has gone."""
        for request in iter(self._message, None):
            name, arguments = request["command"], request.get("arguments") or {}
            body, why = None, None
            try:
                body = self._do(name, arguments)
            except (_Refused, SomaError, NameError, ValueError, TypeError, IndexError,
                    SyntaxError, AttributeError, KeyError) as error:
                why = str(error) or type(error).__name__
            self._send(type="response", request_seq=request["seq"], command=name,
                       success=why is None, **({"body": body or {}} if why is None else
                                               {"message": why}))
            if name == "initialize":
                self.event("initialized")
            if name in _MOVES and why is None:
                self.run = None  # nothing of it is read from now on
                self.moves.put((name, arguments.get("threadId", _SCRIPT)))
            if name in ("disconnect", "terminate"):
                break
        os._exit(0)

    def _do(self, name, arguments):
        if name in _MOVES:
            return self._standing() and {"allThreadsContinued": True}
        if name not in _REQUESTS:
            raise _Refused("soma-nki --dap has no request %s" % name)
        return getattr(self, "_" + re.sub(r"([A-Z])", r"_\1", name).lower())(arguments)

    def _standing(self):
        if not self.run:
            raise _Refused("no kernel stands: the script runs")
        return self.run

    # ---- Before the script ----

    def _initialize(self, _):
        return {"supportsConfigurationDoneRequest": True, "supportsStepBack": True,
                "supportsConditionalBreakpoints": True, "supportsEvaluateForHovers": True,
                "supportsTerminateRequest": True}

    def _launch(self, arguments):
        if not arguments.get("program"):
            raise _Refused("launch needs \"program\", the path of a script")
        self.launched = arguments

    def _pause(self, _):
        if not self.moving:
            raise _Refused("nothing to pause: no kernel runs")
        self.moving.paused = True

    def _set_breakpoints(self, arguments):
        path = os.path.realpath(arguments["source"]["path"])
        wanted = arguments.get("breakpoints") or [{"line": n} for n in arguments.get("lines", ())]
        self.lines[path] = {b["line"]: b.get("condition") for b in wanted}
        return {"breakpoints": [{"verified": True, "line": b["line"]} for b in wanted]}

    def _set_exception_breakpoints(self, _):
        return {"breakpoints": []}

    def _configuration_done(self, _):
        if self.launched is None:
            raise _Refused("launch comes before configurationDone")
        self.ready.set()

    def _disconnect(self, _):
        return None

    _terminate = _disconnect

    # ---- While a kernel stands ----

    def _threads(self, _):
        if not self.run:
            return {"threads": [{"id": _SCRIPT, "name": "script"}]}
        cores = sorted({c for c, _, _ in self.run._instructions()})
        return {"threads": [
            {"id": _thread(c, e), "name": name if len(cores) < 2 else "core %d %s" % (c, name)}
            for c in cores for e, name in enumerate(L.ENGINES)
            if lib.soma_program_instructions(self.run.program.handle, c, e) > 1]}

    def _instruction(self, number):
        core, e = _of_thread(number)
        state = self._standing().engine(L.ENGINES[e], core)
        return core, e, state

    def _text(self, core, e, pc):
        data, n = C.c_void_p(), C.c_size_t()
        status = lib.soma_instruction_text(self.run.program.handle, core, e, pc, C.byref(data),
                                           C.byref(n))
        return L.take_bytes(data, n).decode("utf-8", "replace") if status == L.OK else ""

    def _stack_trace(self, arguments):
        if not self.run or arguments["threadId"] == _SCRIPT:
            return {"stackFrames": [], "totalFrames": 0}
        core, e, state = self._instruction(arguments["threadId"])
        name = self._text(core, e, state["pc"]) or state["name"] or "?"
        if state["status"] != "ready":
            name = "%s: %s" % (state["status"], name)
        frame = {"id": arguments["threadId"], "name": name, "line": state["line"] or 0, "column": 1}
        if state["file"]:
            path = os.path.abspath(state["file"])
            frame["source"] = {"name": os.path.basename(path), "path": path}
        return {"stackFrames": [frame], "totalFrames": 1}

    def _scopes(self, arguments):
        return {"scopes": [{"name": name, "variablesReference": arguments["frameId"] * 100 + i,
                            "expensive": i in (1, 2)} for i, name in enumerate(_SCOPES, 1)]}

    def _variables(self, arguments):
        number, scope = divmod(arguments["variablesReference"], 100)
        core, e, state = self._instruction(number)
        found, names = [], _Names(self.run, self.tiles, core)
        if scope in (1, 2, 3):
            wanted = self.run.program.tensors if scope == 3 else self.tiles
            if scope == 1:
                words = re.findall(r"[A-Za-z_][\w.]*", self._text(core, e, state["pc"]))
                wanted = [w for w in dict.fromkeys(words)
                          if w in self.tiles or w in self.run.program.tensors]
            found = [(n, _value(names[n])) for n in list(wanted)[:_SHOWN]]
        elif scope == 4:
            p, m = self.run.program, self.run.machine
            for i in range(256):
                name = lib.soma_program_semaphore_name(p.handle, core, i)
                if name:
                    found.append(("$" + name.decode(), str(m.semaphore(p, i, core))))
        else:
            found = [("r%d" % i, str(self.run.machine.register(L.ENGINES[e], i, core)))
                     for i in range(64)]
            found = [f for f in found if f[1] != "0"] or found[:1]
        return {"variables": [{"name": n, "value": v, "variablesReference": 0} for n, v in found]}

    def _evaluate(self, arguments):
        run, text = self._standing(), arguments["expression"].strip()
        core = _of_thread(arguments.get("frameId", 1))[0]
        if text.startswith("$"):
            return {"result": str(run.machine.semaphore(run.program, text[1:], core)),
                    "variablesReference": 0}
        value = self._of(text, run, core)
        return {"result": _value(value) if isinstance(value, np.ndarray) else repr(value),
                "variablesReference": 0}

    def _of(self, text, run, core):  # the user's own words
        return eval(text, {"__builtins__": __builtins__}, _Names(run, self.tiles, core))

    # ---- The main thread ----

    def script(self):
        """Runs the script when the editor has said all."""
        self.ready.wait()
        sys.stdout, sys.stderr = _Output(self, "stdout"), _Output(self, "stderr")
        program = os.path.abspath(self.launched["program"])
        os.chdir(self.launched.get("cwd") or ".")
        sys.argv = [program] + list(map(str, self.launched.get("args") or ()))
        sys.path.insert(1, os.path.dirname(program))
        look.state().options["dap"] = self
        status = 0
        try:
            with open(program, "rb") as f:
                text = f.read()
            if program.endswith((".s", ".sbc")):
                self._program(program, text)
            else:
                exec(compile(text, program, "exec"), {
                    "__name__": "__main__", "__file__": program, "__builtins__": __builtins__})
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            status = 1
        self.event("exited", exitCode=status)
        self.event("terminated")

    def _program(self, path, text):
        """Runs a program in assembly, or a .sbc file, on the files of "inputs"."""
        machine = Machine(self.launched.get("target"))
        program = machine.assemble(text.decode(), path) if path.endswith(".s") else \
            machine.load(text)
        values = {name: np.load(file) for name, file in self.launched.get("inputs", {}).items()}
        print(self.kernel(machine, program, values).summary())

    def kernel(self, machine, program, values):
        """What Machine.run does, with stops."""
        run = machine.start(program, values)
        self.tiles, reason, thread = inside.tiles(program), "entry", None
        stand = self.launched.get("stopOnEntry")
        try:
            while True:
                if stand:
                    move, thread = self._stop(run, reason, thread)
                    if move in ("stepBack", "reverseContinue"):
                        reason = "step"
                        self._back(run)
                        continue
                    self._keep(run)
                else:
                    move = "continue"
                reason, thread = self._move(run, move, thread)
                stand = not run.ended
                if run.ended:
                    return run
        finally:
            self.moving, machine.paused = None, False
            for snapshot in self.past:
                lib.soma_snapshot_free(snapshot)
            self.past = []

    def _stop(self, run, reason, thread):
        self.run = run
        if thread in (None, _SCRIPT):
            thread = self._threads(None)["threads"][0]["id"]
        self.event("stopped", reason=reason, threadId=thread, allThreadsStopped=True,
                   text="%.3f ns" % run.time_ns)
        return self.moves.get()

    def _keep(self, run):
        handle = C.c_void_p()
        run.machine._check(lib.soma_run_snapshot(run.handle, self.past[-1] if self.past else None,
                                                 C.byref(handle)))
        self.past.append(handle)

    def _back(self, run):
        if self.past:
            run.machine._check(lib.soma_run_return(C.byref(run.handle), self.past[-1]))
            lib.soma_snapshot_free(self.past.pop())
            run._finish(run.recorder)

    def _move(self, run, move, thread):
        """Moves on; (why it stands, the protocol's thread), whatever these are at the end."""
        if move in ("next", "stepIn"):
            core, e = _of_thread(thread)
            if run.engine(L.ENGINES[e], core)["status"] != "halted":
                run.step(L.ENGINES[e], core)
                return "step", thread
        stops, conditions = [], {}
        for path, lines in self.lines.items():
            for core, e, pc in run._instructions() if lines else ():
                i = run._instruction(core, e, pc)
                if i.line in lines and i.file and \
                        os.path.realpath(os.path.abspath(i.file.decode())) == path:
                    stops.append(Stop(kind=1, engine=e, pc=pc, core=core))
                    conditions[core, e, pc] = lines[i.line]
        while True:
            self.moving = run.machine
            run._until_stop(stops)
            self.moving = None
            hit = Hit()
            if run.ended or lib.soma_run_hit(run.handle, 0, C.byref(hit), C.sizeof(hit)) != L.OK:
                return "pause", None
            condition = conditions.get((hit.core, hit.engine, hit.pc))
            try:
                holds = not condition or self._of(condition, run, hit.core)
            except Exception as error:
                self.event("output", category="console", output="%s: %s\n" % (condition, error))
                holds = True
            if holds:
                return "breakpoint", _thread(hit.core, hit.engine)


_REQUESTS = ("initialize", "launch", "setBreakpoints", "setExceptionBreakpoints", "pause",
             "configurationDone", "disconnect", "terminate", "threads", "stackTrace", "scopes",
             "variables", "evaluate")


def main():
    """Serves an editor on this process's standard input and output; the exit status."""
    server = Server(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what others write there is no message
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    reader = threading.Thread(target=server.answer, daemon=True)
    reader.start()
    server.script()
    reader.join()
    return 0
