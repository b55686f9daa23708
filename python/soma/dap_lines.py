"""The script of Python that an editor debugs: its lines outside of kernels, its frames and their
variables, and what Python's variables were when a line of a kernel was recorded."""
import os
import re
import sys
import types

import numpy as np

from . import record
from .dap_run import SHOWN, Text, value_text
from .live import _PYTHON
from .tensor import Tensor

_PLAIN = (int, float, complex, bool, str, bytes, type(None), slice, range)


def _is_users(file):
    return not (record.is_own(file) or file.startswith(("<", _PYTHON)))


def text_of(x):
    """A value on one line."""
    try:
        text = value_text(x) if isinstance(x, np.ndarray) else repr(x)
    except Exception as error:  # the user's own __repr__
        text = "<%s: %s>" % (type(x).__name__, error)
    text = " ".join(text.split())
    return text if len(text) <= 400 else text[:400] + " ..."


def children(x):
    """[(name, value)] of what a variable has in it; none of a plain value."""
    if isinstance(x, _PLAIN) or isinstance(x, (type, types.ModuleType)) or callable(x):
        return []
    if isinstance(x, dict):
        return [(repr(k), v) for k, v in list(x.items())[:SHOWN]]
    if isinstance(x, (list, tuple, set, frozenset)):
        return [("[%d]" % i, v) for i, v in enumerate(list(x)[:SHOWN])]
    if type(x).__module__ == "__main__" or \
            _is_users(getattr(sys.modules.get(type(x).__module__), "__file__", None) or "<"):
        return list(getattr(x, "__dict__", {}).items())[:SHOWN]
    return []


class Moments:
    """Variables of a kernel's frames before each of their lines, as one recorder has seen them."""

    def __init__(self, rec):
        self.rec, self.values = rec, {}

    def note(self, frame):
        """Before a line."""
        key = os.path.realpath(frame.f_code.co_filename), frame.f_lineno
        self.values.setdefault(key, []).append(
            {n: v for n, v in frame.f_locals.items() if isinstance(v, _PLAIN + (Tensor, tuple))})

    def _tile_names(self, tiles):
        """{id of a storage: its tile's name among those of the program}, by the order in which a
        name's were declared; nothing of a name of which the program has more, or not all, or that
        may be a later one of another."""
        of_name, found = {}, {}
        for s in self.rec.tiles:
            of_name.setdefault(s.name or "t", []).append(id(s))
        for name, storages in of_name.items():
            names = [name] + ["%s_%d" % (name, n) for n in range(2, len(storages) + 2)]
            numbered = re.fullmatch(r"(.+)_\d+", name)
            if numbered and numbered[1] in of_name:
                continue
            if names[-1] not in tiles and all(n in tiles for n in names[:-1]):
                found.update(zip(storages, names))
        return found

    def of_line(self, path, line, operands, tiles):
        """{name: [values]} when that line was recorded; several values where it was recorded
        several times, and the tiles among the operands do not say which time it was."""
        moments, names = self.values.get((path, line), []), self._tile_names(tiles)

        def fits(moment):
            tiles = {names.get(id(v.storage)) for v in moment.values() if isinstance(v, Tensor)}
            return tiles & set(operands)
        found = {}
        for moment in [m for m in moments if fits(m)] or moments:
            for name, value in moment.items():
                if isinstance(value, Tensor):  # as far as Python knew it
                    value = Text("%s%s" % (value.dtype, list(value.shape)))
                found.setdefault(name, {})[text_of(value)] = value
        return {name: list(values.values()) for name, values in found.items()}


class Script:
    """The script that stands at a line, or has called what stands."""

    def __init__(self, frame):
        self.frames = frames(frame)

    def stack(self):
        """[(function, path, line)], the innermost first."""
        return [(f.f_code.co_name, os.path.realpath(f.f_code.co_filename), f.f_lineno)
                for f in self.frames]

    def scopes(self, level):
        f = self.frames[level]
        # What the script itself has made: no modules, nor what Python puts there.
        of_file = [(n, v) for n, v in f.f_globals.items()
                   if not n.startswith("__") and not isinstance(v, types.ModuleType)]
        local = [] if f.f_locals is f.f_globals else [("Locals", list(f.f_locals.items()))]
        return local + [("Globals", of_file)]

    def evaluate(self, text, level):
        f = self.frames[level]
        return eval(text, {**f.f_globals, **f.f_locals})


class Lines:
    """Stops the script at its lines: `server.stop_script(reason, Script)` stands until the editor
    goes on, and gives how. Only the main thread's are seen."""

    def __init__(self, server, breaks, recording):
        self.server, self.breaks, self.recording = server, breaks, recording
        self.paths = {}      # {name of a code's file: path}
        self.mode = None     # where the next stop is: see go()
        self.wanted = False  # the editor wants the script to stand

    def go(self, move, depth):
        """How the script goes on from a place that is so deep: to any line ("in"), to one that is
        not deeper than a number, or to a breakpoint (None)."""
        self.mode = {"next": depth, "stepIn": "in", "stepOut": depth - 1}.get(move)

    def after(self, move, of_engine, script):
        """How it goes on after a run that stood: "next" of an engine leads to the line after."""
        self.go("stepIn" if of_engine and move != "continue" else move, len(script.frames))

    def pause(self):
        self.wanted = True

    def changed(self):
        """The editor has set other breakpoints, which are here already."""

    def close(self):
        """The editor has gone, and this process ends."""

    # What Python calls at a call, and before each line.

    def called(self, frame, event, _):
        name = frame.f_code.co_filename
        path = self.paths.get(name)
        if path is None:
            path = self.paths[name] = os.path.realpath(name)
        return self._line if _is_users(name) and (
            "-packages" not in name or path in self.breaks) else None

    def _line(self, frame, event, _):
        if event != "line" or self.server.asking:
            return self._line
        if record.recording():
            rec = record.active()
            rec.moments = rec.moments or Moments(rec)
            rec.moments.note(frame)
            if not self.recording:
                return self._line
        reason = self._reason(frame)
        if reason:
            script = Script(frame)
            self.go(self.server.stop_script(reason, script), len(script.frames))
        return self._line

    def _reason(self, frame):
        if self.wanted:
            self.wanted = False
            return "pause"
        if self.mode and (self.mode == "in" or len(frames(frame)) <= self.mode):
            return "step"
        lines = self.breaks.get(self.paths[frame.f_code.co_filename])
        if not lines or frame.f_lineno not in lines:
            return None
        condition = lines[frame.f_lineno]
        try:
            return "breakpoint" if not condition or eval(
                condition, {**frame.f_globals, **frame.f_locals}) else None
        except Exception as error:
            self.server.say("%s: %s" % (condition, error))
            return "breakpoint"


def frames(frame):
    """The user's frames, the innermost first."""
    found = []
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found
