"""Looking at the kernels of a script without an edit: the options of soma-nki, which also come from
SOMA_NKI_OPTIONS, so that child processes and notebooks have them too.

    soma-nki --check --page pages train.py
    SOMA_NKI_OPTIONS="--check=race --json found.json" soma-nki train.py

Every call of a kernel asks `call(kernel)`; it gives None if nothing is to be looked at.
"""
import atexit
import json
import os
import shlex
import sys

from . import files

FOUND = 3  # the exit status of a script whose kernels have findings

# An option's name: its placeholder (None: it takes no value), and what it does.
OPTIONS = {
    "check": ("[=LIST]", "checks each kernel call (all, or names as in --check=race,uninit)"),
    "schedules": ("N", "checks each call under N legal timings (also: all)"),
    "json": ("FILE", "writes calls, times, findings and the error as JSON"),
    "timeline": (None, "prints engines and queues over time for each call"),
    "report": (None, "prints what the builder did for each call"),
    "advice": (None, "prints what would make each kernel faster, tried, with its lines"),
    "explain": (None, "prints where the time of each call went"),
    "session": ("[=FILE]", "prints all calls with copies and launches on one timeline at the end, "
                "or writes a page of it, in which each kernel opens"),
    "log": (None, "prints a line for each instruction that is done"),
    "page": ("DIR", "writes a page for each call: DIR/NN-KERNEL.html"),
    "trace": ("DIR", "writes a trace for each call: DIR/NN-KERNEL.json"),
    "target": ("NAME", "such as trn3, instead of the target a kernel asks for"),
    "optimize": ("N", "0: programs in the order of their lines, with all that is in them; 2: the "
                 "fastest of several policies"),
    "costs": ("FILE", "constants of the clock, as of soma --costs"),
    "timing-only": (None, "calculates times and no values: results hold zeros"),
    "threads": ("N", "threads of the host; 0 for all its cores"),
    "disable-dge": (None, "descriptors of transfers are made before the run, as by the compiler's "
                    "--disable-dge"),
}
# Words that soma-nki itself takes.
_COMMANDS = ("--help", "--version", "--env", "--install-kernelspec")
VARIABLE = "SOMA_NKI_OPTIONS"
_OWNER = "SOMA_NKI_PROCESS"  # the process that soma-nki started; others number their files apart


class OptionError(ValueError):
    """An option that is not known, or whose value does not fit."""


def help_text():
    """A line for each option."""
    lines = []
    for name, (value, text) in OPTIONS.items():
        shown = "--" + name + ("" if value is None else value if value[0] == "[" else " " + value)
        lines.append("  %-16s  %s\n" % (shown, text))
    return "".join(lines)


def split(words):
    """(the options in front as {name: value}, the words that follow)."""
    found, i = {}, 0
    while i < len(words) and words[i].startswith("--") and words[i] not in _COMMANDS:
        name, equals, value = words[i][2:].partition("=")
        i += 1
        if name == "sandbox":
            raise OptionError("--sandbox comes first")
        if name == "dap":
            raise OptionError("--dap stands alone: the editor names the script")
        if name not in OPTIONS:
            raise OptionError("there is no option --%s: --help lists them" % name)
        takes = OPTIONS[name][0]
        if takes is None:
            if equals:
                raise OptionError("--%s takes no value" % name)
            value = True
        elif takes[0] == "[":
            value = value if equals else "all"
        elif not equals:
            if i == len(words):
                raise OptionError("--%s needs a value: %s" % (name, takes))
            value = words[i]
            i += 1
        found[name] = _value(name, value)
    return found, words[i:]


def _value(name, value):
    if name == "check":
        from .machine import check_mask
        try:
            check_mask(value)
        except ValueError as error:
            raise OptionError("--check=%s: %s" % (value, error)) from None
    elif name == "schedules" and value != "all" or name == "threads":
        least = 1 if name == "schedules" else 0
        if not value.isdecimal() or int(value) < least:
            raise OptionError("--%s %s: expected a whole number, %d or more%s"
                              % (name, value, least, ", or all" if least else ""))
        return int(value)
    elif name == "optimize":
        if value not in ("0", "1", "2"):
            raise OptionError("--optimize %s: it is 0, 1 or 2" % value)
    elif name == "target":
        from .machine import SomaError
        from .targets import GENERATION, target_named
        try:
            named = target_named(value)
        except SomaError as error:
            raise OptionError("--target: %s" % error) from None
        if named is None:
            raise OptionError("--target %s: there are %s" % (value, ", ".join(GENERATION)))
        return named
    elif name == "costs":
        from .machine import Machine, SomaError
        try:
            Machine(costs=_text_of(value))
        except SomaError as error:
            raise OptionError("--costs %s: %s" % (value, error)) from None
    # a child may start in another folder
    names_file = OPTIONS[name][0] in ("FILE", "DIR") or name == "session" and value != "all"
    return os.path.abspath(value) if names_file else value


def _text_of(costs):
    try:
        with open(costs, encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError("--costs %s: %s" % (costs, error)) from None


class _State:
    """What is asked for, and what has been seen so far in this process."""

    def __init__(self, options):
        self.options, self.calls, self.findings, self.error = options, [], 0, None
        mine = os.environ.setdefault(_OWNER, str(os.getpid())) == str(os.getpid())
        self.mark = "" if mine else "%d-" % os.getpid()
        if "json" in options:
            # os.fork gives children a copy of what stands here
            atexit.register(lambda pid=os.getpid(): os.getpid() == pid and self.write_json())
        self.session = None
        if "session" in options:
            from .sessions import Session
            self.session = Session().__enter__()
            atexit.register(lambda pid=os.getpid(): os.getpid() == pid and self.write_session())

    def write_session(self):
        file = self.options["session"]
        if self.session.entries and file == "all":
            sys.stderr.write("%s\n" % self.session)
        elif self.session.entries:
            mark = "." + self.mark[:-1] if self.mark else ""
            _write(file + mark, self.session.page(title=os.path.basename(sys.argv[0])))

    def write_json(self):
        file = self.options["json"] + ("." + self.mark[:-1] if self.mark else "")
        told = {"calls": self.calls, "findings": self.findings, "error": self.error}
        _write(file, json.dumps(told, indent=1) + "\n")


_state = None


def state():
    """This process's state; its options come from the environment at first."""
    global _state
    if _state is None:
        try:
            options, rest = split(shlex.split(os.environ.get(VARIABLE, "")))
            if rest:
                raise OptionError("%r is not an option" % rest[0])
        except ValueError as error:
            raise OptionError("%s: %s" % (VARIABLE, error)) from None
        _state = _State(options)
        if "target" in options:
            os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = options["target"]
        if "optimize" in options:
            os.environ["SOMA_OPTIMIZE"] = options["optimize"]
        if "disable-dge" in options:
            os.environ["SOMA_DISABLE_DGE"] = "1"
    return _state


def begin(words):
    """Takes soma-nki's own options from the front of its words, in addition to those of the
    environment; the words that follow. Child processes get them by the environment."""
    global _state
    options, rest = split(words)
    if options:
        given = ["--" + n if v is True else "--%s=%s" % (n, v) for n, v in options.items()]
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = (before + " " if before else "") + shlex.join(given)
    os.environ.pop(_OWNER, None)
    _state = None
    state()
    return rest


def add(words):
    """Adds options to those of this process; its children do not get them."""
    options, rest = split(words)
    if rest:
        raise OptionError("%r is not an option" % rest[0])
    state().options.update(options)


def status_of(status):
    """The exit status of a script that ended with `status`: 3 if it is 0 and there are findings."""
    return FOUND if status == 0 and _state and _state.findings else status


def fail(error):
    """Notes the error that ended the script, for --json."""
    if _state:
        _state.error = "%s: %s" % (type(error).__name__, error)


def _write(file, text):
    try:
        files.write(file, text.encode())
    except OSError as error:
        sys.stderr.write("soma-nki: %s: %s\n" % (file, error.strerror or error))


class Call:
    """One call of a kernel that is looked at."""

    def __init__(self, state, name):
        self.state, self.options, self.name = state, state.options, name
        self.told = {"call": len(state.calls) + 1, "kernel": name, "time_us": None, "findings": []}
        state.calls.append(self.told)

    def machine_options(self, options):
        """Those of the run, in addition to what it asks for itself."""
        wanted = dict(options)
        if {"timeline", "explain", "page", "trace"} & self.options.keys():
            wanted["record"] = True
        for name in ("timing-only", "threads"):
            if name in self.options:
                wanted.setdefault(name.replace("-", "_"), self.options[name])
        if "costs" in self.options:
            wanted.setdefault("costs", _text_of(self.options["costs"]))
        return wanted

    def world_options(self, options):
        """The same of a world, whose critical path needs the causes of all ranks."""
        wanted = self.machine_options(options)
        if {"explain", "page"} & self.options.keys():
            wanted["causes"] = True
        return wanted

    def run(self, machine, program, values, log):
        """The run of the call: the machine's, or one that an editor goes through."""
        if "dap" in self.options:
            return self.options["dap"].kernel(machine, program, values)
        return machine.run(program, values, log)

    def log(self, own):
        """The function that gets each line of the log; own: the call's, or None."""
        if own is not None or "log" not in self.options:
            return own
        return lambda line: sys.stderr.write(line + "\n")

    def wants_checks(self):
        return "check" in self.options or "schedules" in self.options

    def check_options(self):
        return {"checks": self.options.get("check", "all"),
                "schedules": self.options.get("schedules", 1)}

    def found(self, findings):
        """Prints and counts what the checks of this call found."""
        for f in findings:
            sys.stderr.write("kernel call %d, %s: %s\n" % (self.told["call"], self.name,
                                                           f.text.rstrip("\n")))
            self.told["findings"].append({
                "check": f.check, "file": f.file, "line": f.line, "engine": f.engine,
                "time_ns": f.time / 1e6, "text": f.text})
        self.state.findings += len(findings)

    def done(self, run, whole=None):
        """Prints and writes what is asked for of a KernelRun; whole: the WorldRun that it is of."""
        whole = whole or run
        self.told["time_us"] = whole.time_us
        title = "kernel call %d, %s, %.2f us" % (self.told["call"], self.name, whole.time_us)
        for name, text in (("report", run.report), ("timeline", whole.timeline),
                           ("advice", lambda: repr(run.advice())), ("explain", run.explain)):
            if name in self.options:
                sys.stderr.write("%s\n%s\n" % (title, text().rstrip("\n")))
        for name, kind, text in (("page", "html", whole.page), ("trace", "json", whole.trace)):
            if name in self.options:
                folder = self.options[name]
                os.makedirs(folder, exist_ok=True)
                file = "%s%02d-%s.%s" % (self.state.mark, self.told["call"], self.name, kind)
                _write(os.path.join(folder, file), text())


def of_world(ranks, runs, programs):
    """An editor goes through the ranks of a world, which have started."""
    if _state and "dap" in _state.options:
        _state.options["dap"].world(ranks, runs, programs)


def debugs():
    """Whether an editor goes through kernels."""
    return bool(_state and "dap" in _state.options)


def call(name):
    """A Call for the kernel of this name, None if nothing is asked for."""
    s = state()
    return Call(s, name) if s.options else None
