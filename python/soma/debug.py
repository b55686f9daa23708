"""The debugger of a run: the command `soma --resume RUN --debug`, which gets a run of Python as a
file and gives it back when the user has left it."""
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from .errors import SomaError
from .lib import lib


def _command():
    """The path of the command soma: next to the library (a build), in the bin folder of its
    installation, or in PATH."""
    library = os.path.dirname(os.path.realpath(lib._name)) if os.sep in lib._name else None
    if library:
        for path in (os.path.join(library, "soma"), os.path.join(library, "..", "bin", "soma")):
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
    found = shutil.which("soma")
    if not found:
        raise SomaError("the debugger is the command soma, which is neither beside %s nor in PATH: "
                        "`make install` installs both" % lib._name)
    return found


def _file(stream):
    """The stream if what a process writes to its file is shown where the stream's text is; None for
    others, as in a notebook, whose stream has the number of the server's terminal."""
    try:
        stream.fileno()
        return stream if isinstance(stream, io.TextIOWrapper) else None
    except (AttributeError, OSError, ValueError):
        return None


def _call(arguments):
    """Runs a command on this process's input and output. Ctrl-C is the command's."""
    out, err = _file(sys.stdout), _file(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: None) if main else None
    try:
        with subprocess.Popen(arguments, stdout=out or subprocess.PIPE,
                              stderr=subprocess.STDOUT if not out else err or subprocess.PIPE,
                              encoding="utf-8", errors="replace") as process:
            for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                for line in pipe or ():
                    stream.write(line)
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
    return process.returncode


def _sources(folder, texts):
    """Options for texts by name that are no files: each is one in the folder."""
    options = []
    for number, (name, text) in enumerate((texts or {}).items()):
        if "=" in name or os.path.isfile(name):
            continue
        path = os.path.join(folder, "source-%d" % number)
        with open(path, "w", encoding="utf-8", errors="replace") as f:
            f.write(text)
        options += ["--source", "%s=%s" % (name, path)]
    return options


def session(saved, commands=None, texts=None):
    """Hands the bytes of a saved run to the debugger. commands: a text whose lines come first,
    before standard input. texts: of source files, by name. Returns the bytes of the run as the user
    has left it; None after a fault."""
    with tempfile.TemporaryDirectory(prefix="soma-debug-") as folder:
        before, after, script = (os.path.join(folder, n) for n in ("run", "left", "commands"))
        with open(before, "wb") as f:
            f.write(saved)
        arguments = [_command(), "--resume", before, "--debug", "--quiet", "--save", after]
        arguments += _sources(folder, texts)
        if commands is not None:
            if not isinstance(commands, str):
                raise TypeError("commands=%r: expected a string with one command on each line" %
                                (commands,))
            with open(script, "w", encoding="utf-8") as f:
                f.write(commands)
            arguments += ["-x", script]
        status = _call(arguments)
        if status:
            raise SomaError("the debugger ended with status %d" % status)
        if not os.path.exists(after):
            return None
        with open(after, "rb") as f:
            return f.read()
