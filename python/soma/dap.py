"""`soma --dap` and `soma-nki --dap`: the Debug Adapter Protocol on standard input and output, so
that an editor stops at lines of scripts, kernels and programs, shows what is there, and goes on and
back.

A thread reads what the editor asks. The main thread runs the script (of Python; of Lua the process
of dap_lua.py does); while it stands at a line, or a run stands, the main thread answers. A
script is one thread of the protocol; engines of a run that stands are others.
"""
import json
import os
import queue
import re
import sys
import threading
import traceback
import types

import numpy as np

from . import dap_lines, look
from .dap_run import SHOWN, Here, Ranks, Text, operands
from .errors import SomaError
from .machine import Machine

_SCRIPT = 1  # the protocol's thread of the script; those of engines follow
_MOVES = ("continue", "next", "stepIn", "stepOut", "stepBack", "reverseContinue")
# Requests that are answered in the reader's thread, whatever the script does meanwhile.
_AT_ONCE = ("initialize", "launch", "setBreakpoints", "setDataBreakpoints",
            "setExceptionBreakpoints", "configurationDone", "disconnect", "terminate", "pause")
_STANDING = ("stackTrace", "scopes", "variables", "evaluate", "dataBreakpointInfo")
# What an expression of the user's may raise; anything else is an error of this file.
_ERRORS = (SomaError, NameError, ValueError, TypeError, IndexError, SyntaxError, AttributeError,
           KeyError, ArithmeticError, RuntimeError, OSError)


class Refused(Exception):
    """A request that cannot be answered; its text goes to the editor."""


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
        self.lock, self.todo, self.ready = threading.Lock(), queue.Queue(), threading.Event()
        self.lines = {}      # {path: {line: condition}} that the editor has set
        self.writes = []     # [(core, name, condition)] whose writes stop a run
        self.launched = self.script = None  # script: what stands at a line, or has called the run
        self.run = None      # that stands
        self.stands = False
        self.moving = None   # a run that goes on
        self.held = []       # functions that give what a number of `variables` has
        self.source = None   # the script: dap_lines.Lines, or of Lua dap_lua.Child
        self.asking = False  # an expression of the editor is at work

    # ---- Messages ----

    def _send(self, **message):
        # Both threads send.
        with self.lock:
            self.number += 1
            data = json.dumps(dict(message, seq=self.number)).encode()
            # Length in bytes, then the text: the frame of the protocol.
            self.written.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
            self.written.flush()

    def event(self, name, **body):
        self._send(type="event", event=name, body=body)

    def say(self, text):
        self.event("output", category="console", output=text + "\n")

    def _message(self):
        size = 0
        # Headers end with an empty line; of the headers only the length counts.
        for line in iter(self.read.readline, b""):
            key, _, value = line.decode("ascii", "replace").partition(":")
            if key.lower() == "content-length":
                size = int(value)
            if not line.strip():
                return json.loads(self.read.read(size))
        return None

    def listen(self):
        """The thread that reads what the editor asks, until it has gone."""
        # Until the editor closes its end.
        for request in iter(self._message, None):
            name = request["command"]
            if name in _MOVES or name in _STANDING or name == "threads":
                # What looks at a run must not while it moves, so the main thread does it when
                # it stands.
                if self.stands:
                    self.todo.put(request)
                    continue
                if name != "threads":
                    self._answer(request, Refused("nothing stands: the script runs"))
                    continue
            self.answer(request)
            if name in ("disconnect", "terminate"):
                break
        if self.source:
            self.source.close()
        # The main thread may be in a kernel, and no thread of Python can end it otherwise.
        os._exit(0)

    def answer(self, request):
        """Does what a request says, and tells the editor; whether it could be done."""
        body, error = None, None
        try:
            body = self._do(request["command"], request.get("arguments") or {})
        except (Refused,) + _ERRORS as wrong:
            error = wrong
        self._answer(request, error, body)
        # Now the editor sends its breakpoints.
        if request["command"] == "initialize":
            self.event("initialized")
        return error is None

    def _answer(self, request, error, body=None):
        name, why = request["command"], None
        if error is not None:
            why = str(error) or type(error).__name__
        self._send(type="response", request_seq=request["seq"], command=name, success=why is None,
                   **({"body": body or {}} if why is None else {"message": why}))

    def _do(self, name, arguments):
        if name in _MOVES:
            if name in ("stepBack", "reverseContinue") and not self.run:
                raise Refused("a script does not go back; a run of a kernel or program does")
            self.stands = False  # before the editor hears of it, and asks again
            return {"allThreadsContinued": True}
        if name not in _AT_ONCE + _STANDING + ("threads",):
            raise Refused("there is no request %s" % name)
        # setBreakpoints is _set_breakpoints.
        return getattr(self, "_" + re.sub(r"([A-Z])", r"_\1", name).lower())(arguments)

    # ---- At any time ----

    def _initialize(self, _):
        return {"supportsConfigurationDoneRequest": True, "supportsStepBack": True,
                "supportsConditionalBreakpoints": True, "supportsEvaluateForHovers": True,
                "supportsDataBreakpoints": True, "supportsTerminateRequest": True}

    def _launch(self, arguments):
        if not arguments.get("program"):
            raise Refused("launch needs \"program\", the path of a script")
        self.launched = arguments

    def _pause(self, _):
        if self.moving:
            self.moving.pause()
        elif self.source and not self.stands:
            self.source.pause()
        else:
            raise Refused("nothing to pause: no script runs")

    def _set_breakpoints(self, arguments):
        path = os.path.realpath(arguments["source"]["path"])
        wanted = arguments.get("breakpoints") or [{"line": n} for n in arguments.get("lines", ())]
        # The list is all that the file has now: others have been taken away.
        self.lines[path] = {b["line"]: b.get("condition") for b in wanted}
        if self.source:
            self.source.changed()
        code = _lines_of(path)
        return {"breakpoints": [
            # A line on which nothing runs would never stop; the editor shows it grey.
            {"verified": True, "line": b["line"]} if code is None or b["line"] in code else
            {"verified": False, "line": b["line"], "message": "nothing runs on this line"}
            for b in wanted]}

    def _set_data_breakpoints(self, arguments):
        wanted = arguments.get("breakpoints") or ()
        found = [json.loads(b["dataId"]) + [b.get("condition")] for b in wanted]
        self.writes = [(_unit(core), name, condition)
                       for core, name, condition in found]
        return {"breakpoints": [{"verified": True} for _ in wanted]}

    def _set_exception_breakpoints(self, _):
        return {"breakpoints": []}

    def _configuration_done(self, _):
        if self.launched is None:
            raise Refused("launch comes before configurationDone")
        self.ready.set()

    def _disconnect(self, _):
        return None

    _terminate = _disconnect

    # ---- While something stands ----

    def _threads(self, _):
        engines = self.run.engines() if self.run and self.stands else ()
        return {"threads": [{"id": _SCRIPT, "name": "script"}] + [
            {"id": _SCRIPT + 1 + i, "name": name} for i, (_, _, name) in enumerate(engines)]}

    def _at(self, thread):
        """(core, engine) of a thread; None: of the script, or of one that is not there any more."""
        engines = self.run.engines() if self.run else ()
        # Threads are the script, then the engines in the order of engines().
        at = thread - _SCRIPT - 1
        return engines[at][:2] if 0 <= at < len(engines) else None

    def _thread_of(self, at):
        engines = [e[:2] for e in self.run.engines()]
        return _SCRIPT + 1 + (engines.index(at) if at in engines else 0)

    def _hold(self, give):
        # Numbers count from 1 up to the next stop, since 0 says that nothing is inside.
        self.held.append(give)
        return len(self.held)

    def _inside(self, value):
        """A number for what is in a value; 0: nothing is."""
        if isinstance(value, Text):  # it is asked for when it is shown
            return self._hold(value.inside) if value.number else 0
        inner = dap_lines.children(value)
        return self._hold(lambda: inner) if inner else 0

    def _stack_trace(self, arguments):
        at = self._at(arguments["threadId"])
        if at:
            state = self.run.engine(*at)
            name = state["text"] or state["name"] or "?"
            if state["status"] != "ready":
                # An engine that waits says for what.
                name = "%s: %s" % (state["status"], name)
            found = [(name, state["file"] and os.path.realpath(state["file"]), state["line"])]
        else:
            found = self.script.stack() if self.script else []
        frames = []
        for level, (name, path, line) in enumerate(found):
            # Its number has the thread, and the level, of which there are at most 1000.
            frame = {"id": arguments["threadId"] * 1000 + level, "name": name, "line": line or 0,
                     "column": 1}
            if path:
                frame["source"] = {"name": os.path.basename(path), "path": path}
            frames.append(frame)
        return {"stackFrames": frames, "totalFrames": len(frames)}

    def _scopes(self, arguments):
        thread, level = divmod(arguments["frameId"], 1000)
        at = self._at(thread)
        if not at and (not self.script or level >= len(self.script.stack())):
            raise Refused("there is no frame %d" % arguments["frameId"])
        scopes = self._of_engine(*at) if at else [
            # `values=values` keeps those of this frame; a name alone would give the last one's.
            (name, lambda values=values: values) for name, values in self.script.scopes(level)]
        return {"scopes": [{"name": name, "variablesReference": self._hold(give),
                            "expensive": name in ("Tiles", "Tensors", "Globals")}
                           for name, give in scopes]}

    def _of_engine(self, core, e):
        """[(scope, function that gives its variables)]"""
        state, run = self.run.engine(core, e), self.run

        def value(name):
            try:
                return run.value(name, core)
            except _ERRORS as error:  # it is not there yet
                return Text("<%s>" % error)

        def arrays(names):
            return lambda: [(n, value(n), core) for n in list(names)[:SHOWN]]

        def registers():
            all_of = [("r%d" % i, v) for i, v in enumerate(run.registers(core, e))]
            # A register that is 0 is mostly one that nothing has used; the first one shows that
            # there are any.
            return [v for v in all_of if v[1]] or all_of[:1]
        recorded = self._recorded(core, state)
        of = run.of(core)
        return [("Operands", arrays(operands(state["text"], of))),
                *([("Python", lambda: [(n, v[0] if len(v) == 1 else _OneOf(v))
                                       for n, v in recorded.items()])] if recorded else []),
                ("Tiles", arrays(of.tiles)), ("Tensors", arrays(of.tensors)),
                ("Semaphores", lambda: [("$" + n, v) for n, v in run.semaphores(core).items()]),
                ("Registers", registers)]

    def _recorded(self, core, state):
        """Python's variables when the instruction's line was recorded."""
        moments, of = self.run.moments_of(core), self.run.of(core)
        if not moments or not state["file"]:
            return {}
        return moments.of_line(os.path.realpath(state["file"]), state["line"],
                               operands(state["text"], of), of.tiles)

    def _variables(self, arguments):
        number = arguments["variablesReference"]
        # The editor may ask for what stood before the last move.
        if not 1 <= number <= len(self.held):
            raise Refused("nothing stands there any more")
        shown = []
        for name, value, *core in self.held[number - 1]()[:SHOWN]:
            shown.append({"name": name, "value": dap_lines.text_of(value),
                          "variablesReference": self._inside(value)})
            if core:  # a name by which dataBreakpointInfo finds it
                shown[-1]["evaluateName"] = name
                origin = self.run.of(*core).origins.get(name)
                if origin:
                    shown[-1]["type"] = origin
        return {"variables": shown}

    def _evaluate(self, arguments):
        text = arguments["expression"].strip()
        thread, level = divmod(arguments.get("frameId") or 0, 1000)
        # Kernels that the expression runs do not stop.
        self.asking = True
        try:
            value = self._value_of(text, thread, level)
        finally:
            self.asking = False
        return {"result": dap_lines.text_of(value), "variablesReference": self._inside(value)}

    def _value_of(self, text, thread, level):
        at = self._at(thread)
        if not self.run or not at and thread == _SCRIPT:
            if not self.script:
                raise Refused("no script stands: choose the frame of an engine")
            return self.script.evaluate(text, level)
        # Without an engine's frame, those of the first engine's core.
        core, e = at or self.run.engines()[0][:2]
        if re.fullmatch(r"\$[\w.]+", text):
            found = self.run.semaphores(core)
            if text[1:] not in found:
                raise Refused("the program has no semaphore %s" % text)
            return found[text[1:]]
        return self.run.evaluate(text, core, e, self._recorded(core, self.run.engine(core, e)))

    def _data_breakpoint_info(self, arguments):
        name = arguments["name"]
        if not self.run or name not in set(self.run.tiles) | set(self.run.tensors):
            return {"dataId": None, "description": "%s is no tile and no tensor of a run that "
                    "stands" % name}
        at = self._at((arguments.get("frameId") or 0) // 1000)
        core = at[0] if at else self.run.engines()[0][0]
        return {"dataId": json.dumps([core, name]), "accessTypes": ["write"],
                "description": "each write to %s" % name}

    # ---- The main thread ----

    def main(self):
        """Runs the script when the editor has said all."""
        self.ready.wait()
        sys.stdout, sys.stderr = _Output(self, "stdout"), _Output(self, "stderr")
        # Before the folder changes.
        program = os.path.abspath(self.launched["program"])
        words = list(map(str, self.launched.get("args") or ()))
        status = 0
        try:
            os.chdir(self.launched.get("cwd") or ".")
            with open(program, "rb") as f:
                text = f.read()
            if program.endswith((".s", ".sbc")):
                self._program(program, text)
            elif program.endswith(".lua"):
                from . import dap_lua
                self.source = dap_lua.Child(self, [os.path.realpath(program)] + words)
                status = self.source.serve()
            else:
                self._python(program, text, words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            at = error.__traceback__
            # The frames of this file say nothing to the user.
            while at is not None and at.tb_frame.f_code.co_filename == __file__:
                at = at.tb_next
            if at is None or not self.source:  # it is no error of a script
                sys.stderr.write("%s\n" % error)
            else:
                traceback.print_exception(type(error), error, at)
            status = 1
        self.event("exited", exitCode=status)
        self.event("terminated")

    def _python(self, program, text, words):
        sys.argv = [program] + words
        # As `python script.py` has them.
        sys.path.insert(1, os.path.dirname(program))
        look.state().options["dap"] = self
        # Its names are those of __main__, so that pickles and `if __name__` work.
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__file__ = program
        code = compile(text, program, "exec")
        self.source = dap_lines.Lines(self, self.lines, bool(self.launched.get("recording")))
        sys.settrace(self.source.called)
        try:
            exec(code, main.__dict__)
        finally:
            # Also when the script raises: what this file does then is not to be traced.
            sys.settrace(None)

    def _program(self, path, text):
        """Runs a program in assembly, or a .sbc file, on the files of "inputs"."""
        machine = Machine(self.launched.get("target"))
        program = machine.assemble(text.decode(), path) if path.endswith(".s") else \
            machine.load(text)
        values = {name: np.load(file) for name, file in self.launched.get("inputs", {}).items()}
        print(self.kernel(machine, program, values).summary())

    def stop_script(self, reason, script):
        """Stands at a line of the script, until the editor goes on: its request."""
        self.script = script
        move, _ = self._stand(reason, _SCRIPT)
        self.script = None
        return move

    def kernel(self, machine, program, values):
        """What Machine.run does, with stops."""
        if self.asking:  # of an expression of the editor
            return machine.run(program, values)
        run = machine.start(program, values)
        self._go_through(Here(run, getattr(program, "moments", None)))
        return run

    def world(self, ranks, runs, programs):
        """Moves the ranks of a world, which have started, with stops."""
        if not self.asking:
            self._go_through(Ranks(ranks, runs, [getattr(p, "moments", None) for p in programs]))

    def _go_through(self, here):
        if self.source:
            # The script's frames at the call that runs the kernel.
            self.script = dap_lines.Script(sys._getframe())
        try:
            self.go_through(here, self.source and self.source.mode == "in")
        finally:
            here.close()
            self.script = None

    def go_through(self, run, step_in=False):
        """Moves a run to its end as the editor says."""
        stand, reason, at = step_in or self.launched.get("stopOnEntry"), "entry", None
        move, self.run = "continue", run
        try:
            while not (run.ended or run.left):
                if stand:
                    move, thread = self._stand(reason, self._thread_of(at), "%.3f ns" % run.time_ns)
                    # The editor may have chosen another engine; next and stepIn are of that
                    # one.
                    at = self._at(thread)
                    if move in ("stepBack", "reverseContinue"):
                        run.back()
                        reason = "step"
                        continue
                    # What back() returns to.
                    run.keep()
                    if self.source:
                        # next and stepIn of the script itself: the run goes on to its end, and
                        # the script stops there.
                        self.source.after(move, bool(at), self.script)
                reason, at = self._move(run, move, at)
                stand = True
        finally:
            self.moving = self.run = None

    def _stand(self, reason, thread, text=None):
        """Answers the editor until it goes on: (the request, its thread)."""
        self.held, self.stands = [], True
        self.event("stopped", reason=reason, threadId=thread, allThreadsStopped=True,
                   **({"text": text} if text else {}))
        while True:
            request = self.todo.get()
            # An answer may be that the script goes on: _do has cleared `stands`.
            self.answer(request)
            if not self.stands:
                return request["command"], (request.get("arguments") or {}).get("threadId", thread)

    def _move(self, run, move, at):
        """Moves on; (why it stands, whose it is), whatever these are at the end."""
        if move in ("next", "stepIn") and at and run.engine(*at)["status"] != "halted":
            run.step(*at)
            return "step", at
        # Only where a line has a breakpoint is it worth to look at all instructions.
        stops, conditions = [], []
        for core, e, pc, path, line in run.instructions() if any(self.lines.values()) else ():
            if line in self.lines.get(path, ()):
                stops.append((core, e, pc))
                conditions.append(self.lines[path][line])
        known = set(run.tiles) | set(run.tensors)
        # A name may be of another run's program.
        writes = [w for w in self.writes if w[1] in known]
        # Conditions of lines, then of writes, as go() numbers what it hits.
        conditions += [condition for _, _, condition in writes]
        while True:
            self.moving = run
            if self.source and self.source.wanted:  # the pause came a moment too early
                self.source.wanted, self.moving = False, None
                return "pause", None
            hit = run.go(stops, [w[:2] for w in writes])
            self.moving = None
            if hit is None:
                return "pause", None
            which, by, words = hit
            if self._holds(conditions[which], by):
                if words:
                    self.say("%s is %s" % (writes[which - len(stops)][1], words))
                return "breakpoint" if which < len(stops) else "data breakpoint", by

    def _holds(self, condition, at):
        self.asking = True
        try:
            return not condition or self.run.evaluate(
                condition, *at, self._recorded(at[0], self.run.engine(*at)) if at[1] else {})
        # A condition that fails stops, and says why: else it would look as if it were never
        # true.
        except Exception as error:
            self.say("%s: %s" % (condition, error))
            return True
        finally:
            self.asking = False


class _OneOf:
    """Values of a variable in iterations of which any may be meant."""

    def __init__(self, values):
        self.values = values

    def __repr__(self):
        return "one of " + ", ".join(map(repr, self.values[:8])) + \
            (" ..." if len(self.values) > 8 else "")


def _unit(core):
    """A core's name as JSON has it."""
    return tuple(core) if isinstance(core, list) else core


def _lines_of(path):
    """The numbers of the lines on which something runs; None: not known."""
    try:
        with open(path, "rb") as f:
            text = f.read()
        if not path.endswith(".py"):
            return None if path.endswith(".sbc") else {
                i for i, line in enumerate(text.splitlines(), 1)
                if line.split() and not line.lstrip().startswith((b";", b"--"))}
        found, codes = set(), [compile(text, path, "exec")]
        for code in codes:  # which grows
            found.update(line for _, _, line in code.co_lines())
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        return found
    except (OSError, SyntaxError, ValueError):
        return None


def main():
    """Serves an editor on this process's standard input and output; the exit status."""
    # What the script prints with the operating system's own calls would break the protocol.
    server = Server(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what others write there is no message
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    reader = threading.Thread(target=server.listen, daemon=True)
    reader.start()
    server.main()
    reader.join()
    return 0
