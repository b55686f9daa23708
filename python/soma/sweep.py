"""Sweeps: the variants of an experiment, each in a process of its own.

    result = soma.sweep(lambda n: kernel.run(x, tile=n), over={"n": [128, 256, 512]})
    print(result)
    result.best()["n"]

and the decorator `autotune`, which tries a kernel's variants once for each kind of arguments.
"""
import contextlib
import functools
import hashlib
import inspect
import io
import itertools
import json
import numbers
import os
import select
import signal
import sys
import time
import traceback

import numpy as np

from . import files, share
from .errors import SomaError

MOST_JOBS = 256


def _variants(over, variants):
    """The variants as a list of dicts; the last parameter of `over` changes fastest."""
    if (over is None) == (variants is None):
        raise TypeError("a sweep takes over={name: values} or variants=[{name: value}]")
    if over is not None:
        found = [dict(zip(over, values)) for values in itertools.product(*map(list,
                                                                              over.values()))]
    else:
        found = [dict(v) for v in variants]
    for v in found:
        for name, value in v.items():
            # What JSON keeps, so that a journal's rows are those of a run.
            if not isinstance(value, (bool, numbers.Number, str, type(None))):
                raise TypeError("%s=%r: parameters are numbers, strings and booleans"
                                % (name, value))
    return found


def _plain(value):
    """A value as JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    if not isinstance(value, (bool, numbers.Number, str, type(None))):
        raise TypeError("a value of a row is a number, a string or a boolean, not %r" % (value,))
    return value


def figures_of(run):
    """The values that a row has of a run, in percent of its time but for the first two; of a world
    the time alone."""
    found, stats = {"time_us": run.time_ns / 1e3}, run.stats
    if isinstance(stats, list):  # by rank
        return found
    found["dma_bytes"] = stats.dma_bytes
    # All engines of all cores all the time.
    whole = run.time_ns * stats.cores * stats.dma_engines or 1
    found["dma_busy"] = 100 * stats.dma_busy / 1e6 / whole
    # Engines that did nothing have no column.
    found.update((name + "_busy", 100 * part)
                 for name, part in run.figures["active"].items() if part)
    return found


def _values(found):
    """The values of what a variant's function returned: a run, a dict, a number, or several."""
    if found is None:
        return {}
    if isinstance(found, tuple):
        return {k: v for part in found for k, v in _values(part).items()}
    if isinstance(found, dict):
        return {str(k): _plain(v) for k, v in found.items()}
    if hasattr(found, "time_ns") and hasattr(found, "stats"):
        # By what it has: runs of kernels, programs and worlds.
        return figures_of(found)
    return {"value": _plain(found)}


def _one(function, variant):
    """The row of a variant, without its parameters, and what it printed."""
    said, row = io.StringIO(), {}
    sys.stdout, before = said, sys.stdout
    try:
        row = _values(function(**variant))
    # A variant that fails is a row, since others may do.
    except Exception as error:
        text = traceback.format_exception_only(type(error), error)[-1].strip()
        row = {"fault": text if not isinstance(error, SomaError) else str(error)}
    finally:
        sys.stdout = before
    return {"row": row, "said": said.getvalue()}


class _Child:
    """A process that works on one variant."""

    def __init__(self, number):
        self.number, self.parts, self.pid = number, [], None
        self.read, self.write = os.pipe()

    def start(self, function, variant):
        # What waits in these would be written by both processes.
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:  # a signal's handler runs once the process is known
            self.pid = os.fork()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        write, self.write = self.write, None
        if self.pid:
            os.close(write)
            return
        status = 1
        # 1 unless all of it was sent.
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.close(self.read)
            with os.fdopen(write, "wb") as out:
                out.write(json.dumps(_one(function, variant)).encode())
            status = 0
        except BaseException as error:
            sys.stderr.write("%s\n" % error)
        finally:
            os._exit(status)  # nothing of the parent's is done twice

    def take(self):
        """Reads what is there; what the process has sent, once it has ended, else None."""
        data = os.read(self.read, 1 << 16)
        if data:
            self.parts.append(data)
            return None
        self._close()
        status = self._wait()
        # Out of memory, or a fault of the library.
        if os.WIFSIGNALED(status):
            return {"signal": os.WTERMSIG(status)}
        try:
            return json.loads(b"".join(self.parts))
        # It ended on its own, without a row.
        except ValueError:
            return {"row": {"fault": "its process ended with status %d"
                                     % os.WEXITSTATUS(status)}, "said": ""}

    def _close(self):
        read, self.read = self.read, None
        if read is not None:
            os.close(read)

    def _wait(self):
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # Ctrl-C came just after it was waited for
            status = 0
        self.pid = None
        return status

    def end(self):
        """Ends it wherever an error, such as Ctrl-C, has stopped take()."""
        with contextlib.suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
        self._close()
        if self.write is not None:
            os.close(self.write)
        if self.pid:
            self._wait()


def run_all(function, todo, jobs, done):
    """Works on (number, variant) of an iterator, several at a time; done(number, found) is called
    for each in the order in which they end. One whose process a signal ends is tried twice."""
    running, waiting, again = {}, iter(todo), {}
    try:
        while True:
            # As many as may run; the rest stays in the iterator, which other processes may
            # share.
            while len(running) < jobs:
                number, variant = next(waiting, (None, None))
                if number is None:
                    break
                child = _Child(number)
                running[child.read] = child, variant
                child.start(function, variant)
            if not running:
                return
            # Whichever has sent something.
            for read in select.select(list(running), [], [])[0]:
                child, variant = running[read]
                found = child.take()
                if found is None:
                    continue
                del running[read]
                if "signal" in found:
                    again[child.number] = again.get(child.number, 0) + 1
                    # A kernel that took too much memory may fit when fewer run.
                    if again[child.number] < 2:
                        waiting = itertools.chain([(child.number, variant)], waiting)
                        continue
                    found = {"row": {"fault": "its process was ended by signal %d"
                                              % found["signal"]}, "said": ""}
                done(child.number, found)
    # Ctrl-C: no process stays.
    finally:
        for child, _ in running.values():
            child.end()


def _source(function):
    """What tells whether a function is another one: its text, else its code."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(code and code.co_code)


def _sum(text):
    return ', "sum": "%s"}' % hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _line_of(value):
    text = json.dumps(value)[:-1]  # _sum ends it
    return text + _sum(text) + "\n"


def _value_of(line):
    """The value of a line that _line_of made, else None."""
    text, _, rest = line.rpartition(', "sum": ')
    return json.loads(text + "}") if text and line == text + _sum(text) else None


class _Journal:
    """Rows that are kept as soon as they are finished: a line of JSON for each, which ends with a
    sum of its text: {"row": {"square": 4}, ..., "sum": "9f86d081884c7d65"}."""

    def __init__(self, path, function, variants):
        self.path, self.rows = os.fspath(path), {}
        self.head = {"sweep": hashlib.sha256(json.dumps(
            [_source(function), variants], sort_keys=True).encode()).hexdigest()}
        if os.path.exists(self.path):
            self._read()
        else:
            self._append(self.head)

    def _read(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            # The last line has no end where the process was killed while it wrote.
            lines = f.read().split("\n")
        lines, rest = lines[:-1], lines[-1]
        found = [_value_of(line) for line in lines]
        if None in found:
            raise SomaError("%s:%d: the line is damaged, or no journal's: its sum is not that of "
                            "its text; delete the %s" % (
                                self.path, found.index(None) + 1, "line, and its variant runs "
                                "again" if found[0] else "file to start again"))
        if not found or found[0] != self.head:
            raise SomaError("%s is the journal of another sweep: of other variants, or a function "
                            "with another text" % self.path)
        self.rows = {line["number"]: line for line in found[1:]}
        if rest:  # the sweep ended while it was written
            # The next row would be joined to it.
            files.write(self.path, "".join(n + "\n" for n in lines).encode())

    def _append(self, line):
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(_line_of(line))

    def keep(self, number, found):
        self._append(dict(found, number=number))


class Sweep:
    """`rows`: a dict for each variant, with its parameters, values, and `fault` if it failed;
    `columns` and `parameters`: their names. print() shows a table."""

    def __init__(self, variants, found, columns=None):
        self.parameters = list(dict.fromkeys(n for v in variants for n in v))
        self.rows = [dict(v, **found[i]["row"]) for i, v in enumerate(variants)]
        # In the order of their first appearance.
        every = list(dict.fromkeys(n for row in self.rows for n in row if n != "fault"))
        if any("fault" in row for row in self.rows):
            every.append("fault")
        self.columns = [n for n in columns if n in every] if columns else every

    def __len__(self):
        return len(self.rows)

    def __str__(self):
        cells = [self.columns] + [[_shown(row.get(n)) for n in self.columns] for row in self.rows]
        left = [any(isinstance(row.get(n), str) for row in self.rows) for n in self.columns]
        wide = [max(len(row[c]) for row in cells) for c in range(len(self.columns))]
        return "\n".join("  ".join(
            cell.ljust(w) if text else cell.rjust(w)
            for cell, w, text in zip(row, wide, left)).rstrip() for row in cells)

    def __repr__(self):
        failed = sum("fault" in row for row in self.rows)
        return "<sweep of %d variants%s>" % (len(self.rows), ", %d failed" % failed if failed
                                             else "")

    def check(self):
        """Itself; SomaError if a variant failed."""
        for row in self.rows:
            if "fault" in row:
                raise SomaError("%s: %s" % (", ".join("%s=%s" % (n, row[n]) for n in
                                                      self.parameters if n in row), row["fault"]))
        return self

    def best(self, column="time_us"):
        """The row with the least value of a column."""
        rows = [row for row in self.rows if isinstance(row.get(column), numbers.Number)]
        if not rows:
            raise SomaError("no variant has a value of %s%s" % (
                column, ": " + self.rows[0]["fault"] if self.rows and "fault" in self.rows[0]
                else ""))
        # A variant that failed has no time.
        return min(rows, key=lambda row: row[column])

    def table(self):
        """{column: array}."""
        return {n: np.array([row.get(n) for row in self.rows],
                            None if all(n in row for row in self.rows) else object)
                for n in self.columns}

    def csv(self, path=None):
        """The CSV text; written to a file if `path` is given."""
        def cell(value):
            text = "" if value is None else str(value)
            return '"%s"' % text.replace('"', '""') if any(c in text for c in ',"\n') else text
        text = "".join(",".join(map(cell, row)) + "\n" for row in [self.columns] + [
            [row.get(n) for n in self.columns] for row in self.rows])
        # With several ranks of a job one writes.
        if path is not None and share.rank() == 0:
            files.write(path, files.named(path, text))
        return text


def _shown(value):
    if isinstance(value, float):
        return "%.6g" % value
    return "" if value is None else str(value).split("\n")[0]


class _Progress:
    """A line on a terminal that says how many are done."""

    def __init__(self, count):
        self.count, self.done, self.began = count, 0, time.monotonic()
        self.on = sys.stderr.isatty() and share.rank() == 0

    def one(self):
        self.done += 1
        if self.on:
            took = time.monotonic() - self.began
            sys.stderr.write("\r%d of %d, about %d s more " % (
                self.done, self.count, took / self.done * (self.count - self.done)))
            sys.stderr.write("\r\033[K" if self.done == self.count else "")
            sys.stderr.flush()


def sweep(run, over=None, variants=None, jobs=None, journal=None, columns=None):
    """Calls run(**variant) for each variant, each in a process of its own, a copy of this one:
    a Sweep. over: {name: values}, all combinations; or variants: a list of dicts. What run returns
    is the row: a run (its time and figures), a dict of values, a number, or a tuple of these. jobs:
    processes at a time. journal: a file in which finished rows are kept, so that a sweep that was
    interrupted goes on there."""
    variants = _variants(over, variants)
    jobs = min(os.cpu_count() or 1, MOST_JOBS) if jobs is None else jobs
    if not isinstance(jobs, int) or not 1 <= jobs <= MOST_JOBS:
        raise ValueError("jobs=%r: it must be 1 to %d" % (jobs, MOST_JOBS))
    # One process keeps it.
    kept = _Journal(journal, run, variants) if journal and share.rank() == 0 else None
    found = dict(kept.rows) if kept else {}
    progress, next_said = _Progress(len(variants) - len(found)), 0

    def done(number, one):
        nonlocal next_said
        found[number] = one
        if kept:
            kept.keep(number, one)
        progress.one()
        # What variants print, in their order, as soon as those before have ended.
        while next_said in found:
            sys.stdout.write(found[next_said]["said"])
            next_said += 1

    todo = [(i, v) for i, v in enumerate(variants) if i not in found]
    found = share.share(lambda items, each: run_all(run, items, jobs, each), todo, done, found)
    return Sweep(variants, found, columns)


# ---- Autotune ----

class Tuned:
    """A kernel whose parameters are chosen for each kind of arguments: the first call with such
    arguments tries all variants. `sweeps` has what was tried, a Sweep by kind."""

    def __init__(self, kernel, over, variants, where, jobs, journal, sweeps=None):
        self.kernel, self.jobs, self.journal = kernel, jobs, journal
        self.variants = [v for v in _variants(over, variants) if where is None or where(**v)]
        if not self.variants:
            raise ValueError("autotune: `where` leaves no variant")
        self.sweeps = {} if sweeps is None else sweeps
        functools.update_wrapper(self, kernel)

    def tune(self, *args, **kwargs):
        """The Sweep of these arguments: rows with time_us, or why a variant is not possible."""
        from .launch import key_of
        key = self.kernel.grid, self.kernel.split, key_of([list(args), kwargs])
        found = self.sweeps.get(key) if key[2] is not None else None
        if found is None:
            found = sweep(lambda **v: {"time_us": self.kernel.time(*args, **kwargs, **v)},
                          variants=self.variants, jobs=self.jobs, journal=self._journal_of(key))
            self.sweeps[key] = found
        return found

    def _journal_of(self, key):
        """The file for this kernel and kind of arguments; None for a kind that has no name."""
        if not self.journal or key[2] is None:
            return None
        what = repr((_source(self.kernel.function), self.kernel.target, key))
        return "%s.%s" % (os.fspath(self.journal),
                          hashlib.sha256(what.encode()).hexdigest()[:12])

    def best(self, *args, **kwargs):
        """The variant that is the fastest for these arguments."""
        row = self.tune(*args, **kwargs).best()
        return {name: row[name] for name in self.variants[0]}

    def __call__(self, *args, **kwargs):
        from . import record
        if record.recording():
            return self.kernel(*args, **kwargs)
        # The user's own arguments go with the chosen ones.
        return self.kernel(*args, **kwargs, **self.best(*args, **kwargs))

    def __getitem__(self, grid):
        return Tuned(self.kernel[grid], None, self.variants, None, self.jobs, self.journal,
                     self.sweeps)

    def __getattr__(self, name):
        """run, check, time, source, report ... with the variant that is the fastest."""
        method = getattr(self.__dict__["kernel"], name)
        if name not in ("run", "check", "time", "source", "program", "report", "advice", "log",
                        "debug"):
            return method
        return lambda *args, **kwargs: method(*args, **kwargs, **self.best(
            # Only what the kernel takes is of its kind of arguments: the rest is options of the
            # method.
            *args, **{n: v for n, v in kwargs.items() if n in self._parameters()}))

    def _parameters(self):
        return inspect.signature(self.kernel.function).parameters

    def __deepcopy__(self, memo):
        # Torch copies modules with all that they have; kernels are the same for all.
        return self


def autotune(over=None, variants=None, where=None, jobs=None, journal=None):
    """A decorator above @nki.jit: the kernel's parameters of `over` ({name: values}) or `variants`
    are chosen by their simulated time, once for each kind of arguments. where(**variant): which of
    them to try."""
    return lambda kernel: Tuned(kernel, over, variants, where, jobs, journal)
