"""Runs public kernels as they are and says for each what came of it.

A case is a function that calls kernels and compares what they give, as the repository's own test
does. While it runs, each call of a kernel is kept, and each comparison with its error; then each
call runs again under the checks, with other legal timings."""
import contextlib
import importlib.util
import io
import os
import re
import signal
import sys
import time
import traceback

import numpy as np

import nki._jit as jit
from soma import launch, record

CLEAN = ("race", "uninit", "psum", "overlap", "port")
SCHEDULES = 4
ALSO = ("trn1", "trn3")  # the other generations, for a third of the kernels
ILLEGAL = re.compile(r"needs? gen\d|a sbuf partition of trn\d has")
SECONDS = 300  # for one case


class TooLong(Exception):
    pass


class Call:
    """A call of a kernel: its arguments as they were before it, and its simulated time."""

    def __init__(self, kernel, args, kwargs):
        def copy(x, path):
            return x.copy() if isinstance(x, np.ndarray) else x.clone()
        self.kernel, self.shapes, self.target = kernel, [], kernel.target
        self.args = tuple(launch._map(a, copy, "") for a in args)
        self.kwargs = {k: launch._map(a, copy, "") for k, a in kwargs.items()}
        for a in self.args:
            launch._map(a, lambda x, path: self.shapes.append(tuple(x.shape)) or x, "")
        self.time_us = None

    name = property(lambda self: self.kernel.function.__name__)

    def findings(self):
        return self.kernel.check(*self.args, schedules=SCHEDULES, **self.kwargs)


class WorldCall:
    """A run of a kernel as the ranks of a world."""

    args = ()

    def __init__(self, kernel, world, arguments, run):
        self.kernel, self.target, self.kwargs = kernel, kernel.target, arguments[0]
        self.shapes, self.time_us, self.found = [], run.time_us, run.findings
        launch._map(arguments[0], lambda x, path: self.shapes.append(tuple(x.shape)) or x, "")
        self.name = "%s on %d ranks" % (kernel.function.__name__, world.ranks)

    def findings(self):
        return self.found


class Seen:
    """What happened while a case ran: calls of kernels, and the worst error of a comparison:
    |got - want| relative to the largest |want|."""

    def __init__(self):
        self.calls, self.worst, self.compared = [], 0.0, 0

    def compare(self, got, want):
        try:
            got, want = numbers(got), numbers(want)
            known = np.isfinite(got) & np.isfinite(want)
            if not known.any():
                return
            scale = np.abs(np.broadcast_to(want, known.shape)[known]).max() or 1.0
            error = np.abs(np.subtract(got, want)[known]).max() / scale
        except (TypeError, ValueError):
            return
        self.compared += 1
        self.worst = max(self.worst, float(error))


@contextlib.contextmanager
def watch():
    """Keeps calls of kernels and comparisons in a Seen."""
    seen, kept = Seen(), []

    def swap(owner, name, make):
        kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, make(getattr(owner, name)))

    def launching(real):
        def _launch(self, args, kwargs, machine=None, **options):
            call = Call(self, args, kwargs)
            run = real(self, args, kwargs, machine, **options)
            call.time_us = run.time_us
            seen.calls.append(call)
            return run
        return _launch

    def in_world(real):
        def run_in(self, world, arguments):
            run = real(self, world, arguments)
            seen.calls.append(WorldCall(self, world, arguments, run))
            return run
        return run_in

    def comparing(real):
        def compare(a, b, *args, **kwargs):
            seen.compare(a, b)
            return real(a, b, *args, **kwargs)
        return compare
    swap(jit.Kernel, "_launch", launching)
    swap(jit.Kernel, "run_in", in_world)
    for name in ("allclose", "array_equal"):
        swap(np, name, comparing)
    for name in ("assert_allclose", "assert_array_equal", "assert_array_almost_equal",
                 "assert_equal"):
        swap(np.testing, name, comparing)
    try:
        yield seen
    finally:
        for owner, name, value in reversed(kept):
            setattr(owner, name, value)


@contextlib.contextmanager
def on_two_cores():
    """Launches that name no grid are of two cores, as with [2]."""
    real = jit.Kernel.__call__

    def call(self, *args, **kwargs):
        plain = self.grid or record.recording()
        return real(self if plain else self[2], *args, **kwargs)
    jit.Kernel.__call__ = call
    try:
        yield
    finally:
        jit.Kernel.__call__ = real


@contextlib.contextmanager
def limit(seconds):
    """Stops what takes longer than that, of the processor's time."""
    def stop(*_):
        raise TooLong("more than %d s" % seconds)
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def environment(target):
    """The target for kernels that name none."""
    name = "NEURON_PLATFORM_TARGET_OVERRIDE"
    before = os.environ.get(name)
    os.environ[name] = target
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class Skip(Exception):
    """Raised by a case that cannot be run here, with the reason."""


class Table:
    """Prints a row for each case and counts them."""

    def __init__(self, pattern="", verbose=False):
        self.pattern, self.verbose = pattern, verbose
        self.passed = self.failed = self.skipped = 0

    def wants(self, *names):
        return re.search(self.pattern, " ".join(names)) is not None

    def case(self, repository, path, name, run, target="trn2", published=None, also=(),
             known=None):
        """Runs run() as a case of that name, on each target; `published` is a time in microseconds
        that its repository states for the first kernel it calls. run() gives a text where a kernel
        is refused as it should be. `known` is of a kernel that is not clean itself: (check, words
        of the finding, why it is the kernel's own); the case fails where that is not found."""
        for t in (target,) + tuple(also):
            if self.wants(repository, path, name, t):
                self.one(repository, path, name, run, t, published if t == target else None,
                         known)

    def one(self, repository, path, name, run, target, published, known=None):
        start, seen, notes = time.time(), None, []
        try:
            with limit(SECONDS), environment(target), self.quiet(), watch() as seen:
                refused = run()
            if not seen.calls and not refused:
                raise AssertionError("no kernel ran")
            with limit(SECONDS), environment(target), self.quiet():
                notes = self.check(seen.calls, known)
            verdict = "ok, refused: " + refused if refused else \
                "ok, finds %s: %s" % (known[0], known[2]) if known else "ok"
            self.passed += 1
        except Skip as error:
            verdict = "skipped: %s" % error
            self.skipped += 1
        except (Exception, SystemExit) as error:
            if self.verbose:
                traceback.print_exc()
            illegal = target in ALSO and ILLEGAL.search(str(error))
            verdict = ("not legal there: " if illegal else "FAILED: ") + _one_line(error)
            self.skipped += bool(illegal)
            self.failed += not illegal
        self.row(repository, path, name, seen, target, published, verdict, notes)
        if self.verbose:
            print("    %.1f s" % (time.time() - start))

    def quiet(self):
        """Without what the case itself prints."""
        return contextlib.nullcontext() if self.verbose else \
            contextlib.redirect_stdout(io.StringIO())

    def check(self, calls, known=None):
        """The names of findings that are accepted; AssertionError for the others."""
        accepted, done, missing = {}, set(), known is not None
        for call in calls:
            key = (call.name, call.target, tuple(call.shapes), launch.key_of(call.kwargs))
            if key in done:
                continue
            done.add(key)
            for f in call.findings():
                if known and f.check == known[0] and known[1] in f.text:
                    missing = False
                elif f.check in CLEAN:
                    raise AssertionError("%s: %s" % (f.check, f.text))
                accepted[f.check] = accepted.get(f.check, 0) + 1
        if missing:
            raise AssertionError("the checks do not find %s: %s" % known[:2])
        return ["%s %d" % item for item in sorted(accepted.items())]

    def row(self, repository, path, name, seen, target, published, verdict, notes):
        calls = seen.calls if seen else []
        names = list(dict.fromkeys(c.name for c in calls))
        function = name if not names else "%s (%s)" % (name, ", ".join(names)) \
            if names != [name] else name
        shapes = " ".join("x".join(map(str, s)) for s in calls[0].shapes) if calls else "-"
        parts = [repository, path, function, shapes, calls[0].target if calls else target,
                 verdict]
        if seen and seen.compared:
            parts.append("error %.1e" % seen.worst)
        if calls and calls[0].time_us is not None:
            parts.append("%.1f us" % calls[0].time_us)
        if published:
            parts.append("published %g us" % published)
        if notes:
            parts.append("accepted: " + ", ".join(notes))
        print(" | ".join(parts), flush=True)

    def end(self):
        print("%d passed, %d failed%s" % (
            self.passed, self.failed, ", %d skipped" % self.skipped if self.skipped else ""))
        return 1 if self.failed else 0


def _one_line(error):
    text = " ".join(str(error).split()) or type(error).__name__
    kind = type(error).__name__
    shown = text if kind in text else "%s: %s" % (kind, text)
    at = [f for f in traceback.extract_tb(error.__traceback__) if "/python/" not in f.filename]
    if at and "%s:" % os.path.basename(at[-1].filename) not in shown:
        shown += " (%s:%d)" % (os.path.basename(at[-1].filename), at[-1].lineno)
    return shown[:600]


def numbers(x):
    """The values of an array of any type as float64."""
    if hasattr(x, "soma_dtype"):
        x = x.astype(np.float32)
    return np.asarray(x).astype(np.float64)


def close(got, want, rtol=1e-5, atol=1e-8, names=""):
    """AssertionError where got differs from want, by NumPy's rule for tolerances."""
    got, want = numbers(got), numbers(want)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=names)


def refused(call, *words):
    """The error of a call, one line, which must have these words."""
    try:
        call()
    except Exception as error:
        missing = [w for w in words if w not in str(error)]
        if missing:
            raise AssertionError("the error lacks %s: %s" % (missing, error)) from error
        return " ".join(str(error).split())[:300]
    raise AssertionError("it was not refused")


def load(path, name=None):
    """The module of a file, its folder first on sys.path while it loads."""
    name = name or os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
