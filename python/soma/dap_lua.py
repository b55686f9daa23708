"""Scripts of Lua for dap.py: the command `soma --dap=IN,OUT SCRIPT.lua` (lua/command/dap.lua) runs
the script, and stands at its lines and runs; what the editor asks then goes there."""
import json
import os
import subprocess
import threading

from . import debug
from .dap_run import Text
from .errors import SomaError


def _lua(x):
    """A value as Lua writes it."""
    if x is None:
        return "nil"
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, (int, float)):
        return repr(x)
    if isinstance(x, str):
        return '"%s"' % "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else "\\%03d" % b
                                for b in x.encode("utf-8", "surrogateescape"))
    if isinstance(x, dict):
        return "{%s}" % ",".join("[%s]=%s" % (_lua(k), _lua(v)) for k, v in x.items())
    return "{n=%d,%s}" % (len(x), ",".join(map(_lua, x)))


def _unit(core):
    """A core as answers name it: a number, or in a world [rank, core]."""
    return tuple(core) if isinstance(core, list) else core


class _Value(Text):
    """A variable of Lua."""

    def __new__(cls, child, told):
        x = Text.__new__(cls, told["text"], told["holds"])
        x.child, x.number = child, told["inside"]
        return x

    def inside(self):
        if not self.number:
            return []
        return [(v["name"], _Value(self.child, v))
                for v in self.child.ask("inside", self.number)["variables"]]


class _Script:
    """The script that stands at a line, or that runs what stands."""

    def __init__(self, child, frames):
        self.child, self.frames = child, frames

    def stack(self):
        return [(f["name"], f["path"], f["line"]) for f in self.frames]

    def scopes(self, level):
        found = self.child.ask("scopes", level + 1)["variables"]
        return [("Locals", [(v["name"], _Value(self.child, v)) for v in found])]

    def evaluate(self, text, level):
        return _Value(self.child, self.child.ask("expression", text, level + 1))


class _Run:
    """A run, or a world, of the script: what dap_run.Here is for one of this process."""

    left = False  # it stands at a stop of the script's own, which goes on

    def __init__(self, child):
        self.child, self.kept = child, 0
        told = self._ask("program")
        self.tiles, self.tensors, self.origins = told["tiles"], told["tensors"], told["origins"]
        self._engines = [(_unit(core), e, name) for core, e, name in told["engines"]]
        real = {file: os.path.realpath(file) for _, _, _, file, _ in told["instructions"]}
        self._instructions = [(_unit(core), e, pc, real[file], line)
                              for core, e, pc, file, line in told["instructions"]]

    def _ask(self, *request):
        told = self.child.ask(*request)
        self.time_ns, self.ended = told["time_ns"], told["ended"]
        return told

    def of(self, core):
        return self

    def moments_of(self, core):
        return None  # of Python's

    def instructions(self):
        return self._instructions

    def engines(self):
        return self._engines

    def engine(self, core, e):
        told = self._ask("engine", core, e)
        for name in ("file", "line", "name"):
            told[name] = told[name] or None
        return told

    def value(self, name, core):
        return Text(self._ask("value", core, name)["value"])

    def semaphores(self, core):
        return dict(self._ask("semaphores", core)["value"])

    def registers(self, core, e):
        return self._ask("registers", core, e)["value"]

    def evaluate(self, text, core, e, _):
        told = self._ask("evaluate", text, core, e)
        return Text(told["text"], told["holds"])

    def step(self, core, e):
        self._ask("step", core, e)

    def go(self, stops, writes):
        told = self._ask("go", stops, writes)
        if "which" not in told:
            self.left = told["own"]
            return None
        return told["which"] - 1, (_unit(told["core"]), told["engine"] or None), \
            told["words"] if told["which"] > len(stops) else ""

    def pause(self):
        self.child.pause()

    def keep(self):
        self._ask("keep")
        self.kept += 1

    def back(self):
        if not self.kept:
            return False
        self.kept -= 1
        return self._ask("back")["value"]

    def close(self):
        pass


class Child:
    """The process of the script."""

    def __init__(self, server, words):
        self.server, self.lock = server, threading.Lock()
        read, its_write = os.pipe()
        its_read, write = os.pipe()
        self.process = subprocess.Popen(
            [debug._command(), "--dap=%d,%d" % (its_read, its_write)] + words,
            pass_fds=(its_read, its_write), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(os.environ, PWD=os.getcwd()))
        os.close(its_read)
        os.close(its_write)
        self.read, self.written = os.fdopen(read, "rb"), os.fdopen(write, "wb")
        self.readers = [threading.Thread(target=self._output, args=of, daemon=True) for of in (
            (self.process.stdout, "stdout"), (self.process.stderr, "stderr"))]
        for reader in self.readers:
            reader.start()

    def _output(self, stream, category):
        for line in stream:
            self.server.event("output", category=category, output=line.decode("utf-8", "replace"))

    def send(self, *request):
        """What has no answer."""
        with self.lock:
            try:
                self.written.write(_lua(request).encode() + b"\n")
                self.written.flush()
            except OSError:
                pass  # it has ended, which message() tells

    def message(self):
        """What the process says next; None: it has ended."""
        while True:
            size = self.read.readline()
            if not size:
                return None
            told = json.loads(self.read.read(int(size)))
            if "said" not in told:
                return told
            self.server.say(told["said"])

    def ask(self, *request):
        self.send(*request)
        told = self.message()
        if told is None:
            raise SomaError("the script has ended")
        if "error" in told:
            raise SomaError(told["error"])
        return told

    # What dap.Server wants of a script.

    wanted = False  # the process knows itself whether it is to stand

    def changed(self):
        """The editor has set other breakpoints."""
        self.send("lines", {path: {line: condition or "" for line, condition in lines.items()}
                            for path, lines in self.server.lines.items()})

    def pause(self):
        self.send("pause")

    def close(self):
        self.process.kill()

    def after(self, move, of_engine, _):
        """How the script goes on after a run that stood."""
        self.move = "stepIn" if of_engine and move != "continue" else move

    def serve(self):
        """Until the script has ended: its exit status."""
        self.changed()
        self.send("go", "continue")
        for told in iter(self.message, None):
            script = _Script(self, told["frames"])
            if told["stopped"] == "line":
                self.send("go", self.server.stop_script(told["reason"], script))
                continue
            self.move = None
            self.server.script = script
            try:
                self.server.go_through(_Run(self), told["into"])
            finally:
                self.server.script = None
                self.send("leave", self.move)
        for reader in self.readers:
            reader.join()
        return self.process.wait()
