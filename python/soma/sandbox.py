"""`soma-nki --sandbox`: runs a script that is not trusted in a process of its own (confined.py),
and says how it ended. This process has nothing of the script's in it."""
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from . import files, look

# Statuses, as of `soma --sandbox`.
HOST, TIME, MEMORY, OUTPUT, CRASH, INTERRUPTED = 2, 101, 102, 103, 104, 130
_VERDICTS = {0: "ok", HOST: "host", TIME: "time", MEMORY: "memory", OUTPUT: "output",
             CRASH: "crash", INTERRUPTED: "interrupted"}
USAGE = """usage: soma-nki --sandbox [OPTIONS] SCRIPT.py [ARGUMENTS]
  --in NAME=FILE.npy     the script finds it as soma.inputs[NAME]; may be repeated
  --out NAME=FILE.npy    where soma.outputs[NAME] goes when the script has ended well; likewise
  --expect NAME=FILE.npy soma.outputs[NAME] must be equal to it; likewise
  --rtol N, --atol N     within so much; 1e-5 and 1e-8
  --import FOLDER        a folder that the script may import from, and read; likewise
  --max-seconds N        end it after so long; default 60
  --max-cpu-seconds N    end it when it has used so much processor time; default: no such limit
  --max-memory BYTES     in addition to Python's own, as 512M or 2G; default 1G
  --max-output BYTES     of what it prints; default 1M
  --json FILE            the verdict, calls and findings as JSON; - is standard output, which then
                         has nothing else
  --no-filter            without the filter of system calls and without Landlock, where the system
                         has none
and of soma-nki's other options those that write no files, such as --check and --target.
Exit status: 0 ok, 1 an error in the script, a finding or a wrong output, up to 99 what the script
returns, 2 the command line or its files, and nothing is known of the script; 101 over a limit of
time, 102 of memory, 103 of output; 104 its process has crashed.
"""
_PAIRS, _MANY = ("in", "out", "expect"), ("import",)
_NUMBERS = {"rtol": 1e-5, "atol": 1e-8, "max-seconds": 60.0, "max-cpu-seconds": 0.0}
_BYTES = {"max-memory": 1 << 30, "max-output": 1 << 20}
_NOT_HERE = ("page", "trace", "session", "costs")


class HostError(Exception):
    """What is wrong with the command line or its files, and nothing of the script's."""


def _bytes(word, text):
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 0)
    digits = text[:-1] if unit else text
    if not digits.isdecimal() or not int(digits):
        raise HostError("--%s takes a number of bytes, such as 4096, 64K, 512M or 2G, not %r"
                        % (word, text))
    return int(digits) * (unit or 1)


def _number(word, text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    # A limit of 0 would end everything at once.
    if not 0 <= value <= 1e6 or value == 0 and word.startswith("max"):
        raise HostError("--%s takes a number up to 1000000, not %r" % (word, text))
    return value


def _parse(words):
    """(options, the script and its arguments)."""
    options = dict(_NUMBERS, **_BYTES, **{n: {} for n in _PAIRS}, **{n: [] for n in _MANY})
    options.update(json=None, filter=True, look=[])
    i = 0
    while i < len(words) and words[i].startswith("-"):
        name, equals, value = words[i][2:].partition("=")
        i += 1
        if name in ("sandbox", "no-filter"):
            options["filter"] &= name == "sandbox"
            continue
        if name in _NOT_HERE:
            raise HostError("a sandbox has no option --%s, which needs files" % name)
        known = name in _PAIRS or name in _MANY or name in _NUMBERS or name in _BYTES
        # Options of soma-nki that take a value.
        known = known or (look.OPTIONS.get(name) or (None,))[0] in ("N", "NAME", "FILE")
        if known and not equals:
            if i == len(words):
                raise HostError("--%s needs a value" % name)
            value = words[i]
            i += 1
        if name in _PAIRS:
            key, equals, file = value.partition("=")
            if not equals or not key or not file:
                raise HostError("--%s takes NAME=FILE.npy, not %r" % (name, value))
            if key in options[name]:
                raise HostError("--%s names %r twice" % (name, key))
            options[name][key] = file
        elif name in _MANY:
            options[name].append(os.path.abspath(value))
        elif name in _NUMBERS:
            options[name] = _number(name, value)
        elif name in _BYTES:
            options[name] = _bytes(name, value)
        elif name == "json":
            options["json"] = value
        else:
            try:
                # As one word, so that a value is never taken for the script.
                options["look"] += [words[i - 1]] if equals or not value else ["--%s=%s" % (
                    name, value)]
                look.split(options["look"])
            except look.OptionError as error:
                raise HostError(str(error)) from None
    if i == len(words) or not words[i].endswith(".py"):
        raise HostError("a sandbox runs one SCRIPT.py")
    return options, words[i:]


def _json(words):
    # Before the rest is parsed, which may fail: the caller reads the verdict there all the
    # same.
    for i, word in enumerate(words):
        if word.startswith("--json"):
            return word[7:] or (words[i + 1:] or [None])[0]
        if word.endswith(".py"):
            break
    return None


def _job(options, words, opened):
    """What the process gets, as JSON: its files are numbers of open files, which opened keeps."""
    def read(path):
        try:
            opened.append(open(path, "rb"))
            return opened[-1]
        except OSError as error:
            raise HostError("cannot read %r: %s" % (path, error.strerror)) from None
    with read(words[0]) as f:
        # No more than the process could have.
        text = f.read(options["max-memory"]).decode("utf-8", "replace")
    job = {"script": words[0], "arguments": words[1:], "text": text, "filter": options["filter"],
           "imports": options["import"], "memory": options["max-memory"],
           "cpu_seconds": options["max-cpu-seconds"], "outputs": {}, "inputs": {
               name: read(path).fileno() for name, path in options["in"].items()}}
    for name, path in options["in"].items():
        try:
            # Checked here, where an error is the host's and not the script's.
            np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise HostError("%r: %s" % (path, error)) from None
    made = {}
    for name in {**options["out"], **options["expect"]}:
        # Without a name: the script can fill it, and nothing else of the disk.
        made[name] = tempfile.TemporaryFile()
        job["outputs"][name] = made[name].fileno()
    opened += made.values()
    return job, made


def _environment(options):
    keep = ("PATH", "SOMA_LIB", "PYTHONPATH", "NEURON_PLATFORM_TARGET_OVERRIDE", "LANG")
    # Nothing of the user's environment may leak, nor change what numerics do.
    values = {n: v for n, v in os.environ.items() if n in keep or n.startswith("OPENBLAS_")}
    values.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", HOME="/nonexistent",
                  PYTHONDONTWRITEBYTECODE="1")
    # An empty or relative folder would be below /, where the process starts, and / can be all.
    values["PYTHONPATH"] = os.pathsep.join(
        filter(os.path.isabs, values.get("PYTHONPATH", "").split(os.pathsep)))
    if options["look"]:
        values[look.VARIABLE] = " ".join(options["look"])
    return values


class _Process:
    """The script's process, from its start to its end."""

    def __init__(self, options, words):
        self.options, self.said, self.text = options, {1: b"", 2: b""}, b""
        self.opened = []
        try:
            self.job, self.made = _job(options, words, self.opened)
            description = tempfile.TemporaryFile()
            self.opened.append(description)
            # The process tells how it ended through a pipe of its own, since it may print
            # anything.
            ending, self.job["ending"] = os.pipe()
            description.write(json.dumps(self.job).encode())
            description.seek(0)
            from . import nki_main
            self.begin = time.monotonic()
            self.child = subprocess.Popen(
                # By its file: the folder of the caller is no folder of the script's.
                [sys.executable, nki_main.__file__, "--confined", str(description.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=_environment(options), cwd="/",
                pass_fds=[f.fileno() for f in self.opened if not f.closed] + [self.job["ending"]])
        except BaseException:
            self.close()
            raise
        # Else the pipe would never end.
        os.close(self.job["ending"])
        self.pipes = {self.child.stdout.fileno(): 1, self.child.stderr.fileno(): 2, ending: 0}

    def close(self):
        for f in self.opened:
            f.close()

    def wait(self):
        """(status, message) of a limit that was reached, else (None, None); the process is over."""
        left, told = self.options["max-output"], (None, None)
        with selectors.DefaultSelector() as ready:
            for fd in self.pipes:
                ready.register(fd, selectors.EVENT_READ)
            while ready.get_map():
                # Time passes whether it prints or not.
                rest = self.begin + self.options["max-seconds"] - time.monotonic()
                if rest <= 0:
                    told = TIME, "the time limit of --max-seconds is reached"
                    break
                for key, _ in ready.select(rest):
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        ready.unregister(key.fd)
                    # The ending has a limit of its own.
                    left -= len(data) if self.pipes[key.fd] else 0
                    self._take(self.pipes[key.fd], data[:len(data) + min(left, 0)])
                if left < 0:
                    told = OUTPUT, "it printed more than --max-output"
                    break
        os.kill(self.child.pid, signal.SIGKILL)  # kill() of the child would take its status
        _, self.ended, self.used = os.wait4(self.child.pid, 0)
        self.seconds = time.monotonic() - self.begin
        self.child.returncode = self.ended  # so that nobody waits for it again
        for fd in self.pipes:
            if not self.pipes[fd]:
                os.close(fd)
        self.child.stdout.close()
        self.child.stderr.close()
        return told

    def _take(self, kind, data):
        if not kind:
            # 64 MiB: the script could write there without end.
            self.text += data[:max(0, (64 << 20) - len(self.text))]
            return
        self.said[kind] += data
        if self.options["json"] != "-":
            stream = sys.stdout if kind == 1 else sys.stderr
            stream.write(data.decode("utf-8", "replace"))
            stream.flush()

    def ending(self):
        """What the process told of its end; None if it told nothing that confined.py would tell:
        the script may have written there."""
        try:
            # As if it were the script's: fields, types and the status are checked.
            told = json.loads(self.text)
            good = told["status"] in (*range(100), MEMORY) and all(
                isinstance(f["text"], str) for call in told["calls"] for f in call["findings"])
            return told if good else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def _no_numbers(values):
    """What is wrong with the type of an array; "" if it has real numbers."""
    return "" if values.dtype.kind in "biuf" else \
        "it has %s, which are no real numbers" % values.dtype


def _worst(name, got, want, rtol, atol):
    """What is told of an output and what was expected."""
    if _no_numbers(got):
        return {"right": False, "text": "%s: %s" % (name, _no_numbers(got))}
    if got.shape != want.shape:
        return {"right": False, "text": "%s: shape %s, expected %s" % (name, got.shape, want.shape)}
    # Infinities and NaN take part without warnings.
    with np.errstate(all="ignore"):
        close = np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
    # The furthest off is shown; a NaN in one of them alone counts as infinitely far.
    off = np.where(close, -1, np.where(np.isnan(off), np.inf, off))
    if close.all():
        return {"right": True, "text": None}
    at = tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))
    return {"right": False, "at": at, "got": float(got[at]), "expected": float(want[at]),
            "wrong": int((~close).sum()), "elements": int(close.size), "text":
            "%s: element %s is %.9g, expected %.9g; %d of %d elements differ (rtol %g, atol %g)" % (
                name, list(at), got[at], want[at], (~close).sum(), close.size, rtol, atol)}


def _results(process, options):
    """({name: what is told of it}, the first thing that is wrong); outputs are saved."""
    told, wrong = {}, None
    for name, f in process.made.items():
        f.seek(0)
        try:
            got = np.load(f, allow_pickle=False)
        except Exception as error:  # the script may have written anything
            return told, "soma.outputs[%r]: %s" % (name, error)
        if name in options["out"]:
            # Its bytes as the script wrote them.
            f.seek(0)
            try:
                files.write(options["out"][name], f.read())
            except OSError as error:
                raise HostError("%s: %s" % (options["out"][name], error.strerror)) from None
        if name in options["expect"]:
            try:
                want = np.load(options["expect"][name], allow_pickle=False)
                why = _no_numbers(want)
            except (ValueError, OSError, EOFError) as error:
                why = str(error)
            if why:
                raise HostError("%s: %s" % (options["expect"][name], why))
            told[name] = _worst(name, got, want, options["rtol"], options["atol"])
            wrong = wrong or told[name]["text"]
    return told, wrong


def _judge(process, options, reached):
    """The verdict's fields."""
    status, message = reached
    end = process.ending() or {}
    found = {"expect": {}, "file": end.get("file"), "line": end.get("line", 0),
             "calls": end.get("calls", []), "findings": end.get("findings", 0)}
    number = os.WTERMSIG(process.ended) if os.WIFSIGNALED(process.ended) else 0
    # A limit comes before what the process says of itself.
    if status is None and end:
        status, message = end["status"], end.get("message")
        if status == 0:
            found["expect"], message = _results(process, options)
            texts = [f["text"] for call in end["calls"] for f in call["findings"]]
            message = texts[0].split("\n")[0] if texts else message
            status = int(bool(message))
    # The kernel's own limit of processor time.
    elif status is None and number == signal.SIGXCPU:
        status, message = TIME, "the limit of processor time of --max-cpu-seconds is reached"
    elif status is None:
        status = CRASH
        message = "its process was ended by %s" % signal.Signals(number).name if number and \
            number != signal.SIGKILL else "its process ended without a word"
    return dict({"verdict": _VERDICTS.get(status, "error"), "status": status, "message": message},
                **found)


def _tell(told, to):
    """Says how it ended; to: "-" or a file for JSON, or None. The exit status."""
    if told["message"] and to != "-":
        sys.stderr.write("soma-nki: %s: %s\n" % (told["verdict"], told["message"]))
    told = json.loads(json.dumps(told), parse_constant=lambda name: None)  # JSON has no NaN
    text = json.dumps(told, indent=1) + "\n"
    if to == "-":
        sys.stdout.write(text)
    elif to:
        try:
            files.write(to, text.encode())
        except OSError as error:
            sys.stderr.write("soma-nki: host: cannot write %r: %s\n" % (to, error.strerror))
            return HOST
    return told["status"]


def main(words):
    """Runs the script that the words name; the exit status."""
    if "--help" in words:
        sys.stdout.write(USAGE)
        return 0
    options = {"json": _json(words)}  # what is wrong with the others is said so, too
    try:
        options, words = _parse(words)
        # The verdict says what the script was confined by.
        filter_ = False
        if options["filter"]:
            try:
                ctypes.CDLL("libseccomp.so.2")
                filter_ = "libseccomp"
            except OSError:
                raise HostError("libseccomp.so.2 is not installed, which filters system calls; "
                                "--no-filter runs without it") from None
        process = _Process(options, words)
        try:
            told = _judge(process, options, process.wait())
        except KeyboardInterrupt:
            os.kill(process.child.pid, signal.SIGKILL)
            process.child.wait()
            told = {"verdict": "interrupted", "status": INTERRUPTED, "message": "interrupted"}
            process.seconds, process.used = time.monotonic() - process.begin, None
        finally:
            process.close()
        used = process.used
        told.update(stdout=process.said[1].decode("utf-8", "replace"),
                    stderr=process.said[2].decode("utf-8", "replace"), seconds=process.seconds,
                    cpu_seconds=used and used.ru_utime + used.ru_stime,
                    memory_bytes=used and used.ru_maxrss * 1024, filter=filter_)
    except HostError as error:
        told = {"verdict": "host", "status": HOST, "message": str(error)}
    return _tell(told, options["json"])
