"""All kernel calls of a part of a script on one timeline:

    with soma.session() as s:
        y = second(first(x))
    print(s)

A call is its copies to the device, the launch, the kernel and the copies back, one after another,
as a host that waits for each call sees it. Copies by dev.array() and t.numpy() are there too.
"""
import contextlib
import ctypes as C
import sys

import numpy as np

from . import lib as L
from .lib import lib
from .show import Text, _pre, span

_open = []  # the sessions that are on
_HOST = {0: "copies", 1: "launches"}  # rows of the timeline that are no kernel's


class Entry:
    """One call of a kernel, or one copy (`kernel` is None): `place` is the line of the script that
    made it; start_us and copy_in_us, launch_us, time_us, copy_out_us follow one another; bytes_in,
    bytes_out; `target`, `program`."""

    program = None  # of a kernel that can run again alone
    page = None     # of a rank of a world, if it was recorded

    def __init__(self, kernel, place, target, start_us):
        self.kernel, self.place, self.target, self.start_us = kernel, place, target, start_us
        self.copy_in_us = self.launch_us = self.time_us = self.copy_out_us = 0.0
        self.bytes_in = self.bytes_out = 0

    @property
    def end_us(self):
        return self.start_us + self.copy_in_us + self.launch_us + self.time_us + self.copy_out_us

    def parts(self):
        """(row of the timeline, start, end) of what takes time; a row is one of _HOST, or the
        kernel's name."""
        at = self.start_us
        for row, took in ((0, self.copy_in_us), (1, self.launch_us), (self.kernel, self.time_us),
                          (0, self.copy_out_us)):
            if took:
                yield row, at, at + took
            at += took

    def __repr__(self):
        what = self.kernel or "copy of %d bytes" % (self.bytes_in + self.bytes_out)
        return "<%s at %s: %s>" % (what, self.place, span(1e3 * (self.end_us - self.start_us)))


class Session:
    """What ran while it was on. `calls` are kernel calls, `entries` those and the copies between
    them; print() shows a timeline, each call and the totals."""

    def __init__(self):
        self.entries = []

    def __enter__(self):
        _open.append(self)
        return self

    def __exit__(self, *error):
        _open.remove(self)

    calls = property(lambda self: [e for e in self.entries if e.kernel])
    time_us = property(lambda self: self.entries[-1].end_us if self.entries else 0.0)

    def totals(self):
        """{"kernels", "launches", "copies"}: microseconds, which add up to time_us."""
        e = self.entries
        return {"kernels": sum(x.time_us for x in e), "launches": sum(x.launch_us for x in e),
                "copies": sum(x.copy_in_us + x.copy_out_us for x in e)}

    def by_kernel(self):
        """{name: (calls, microseconds)}, the longest first."""
        found = {}
        for e in self.calls:
            n, took = found.get(e.kernel, (0, 0.0))
            found[e.kernel] = n + 1, took + e.time_us
        return dict(sorted(found.items(), key=lambda item: -item[1][1]))

    def rows(self):
        """{row of the timeline, as parts() has it: what is shown for it}."""
        return dict(_HOST, **{name: name for name in self.by_kernel()})

    def table(self):
        """The entries as {column: array}."""
        names = ("kernel place target start_us copy_in_us launch_us time_us copy_out_us bytes_in "
                 "bytes_out").split()
        return {n: np.array(["" if v is None else v for v in (getattr(e, n) for e in self.entries)])
                for n in names}

    def timeline(self, width=80):
        """Rows for copies, launches and each kernel over time: # the whole column, + half, - less.
        """
        names = self.rows()
        label = min(max(map(len, names.values())), 24)
        columns = max(width - label - 11, 10)
        step = (self.time_us or 1) / columns
        busy = {name: np.zeros(columns) for name in names}
        for entry in self.entries:
            for row, start, end in entry.parts():
                first, last = int(start / step), min(int(end / step), columns - 1)
                for c in range(first, last + 1):
                    busy[row][c] += max(min(end, (c + 1) * step) - max(start, c * step), 0)
        lines = []
        for row, name in names.items():
            share = busy[row] / step
            marks = "".join("#" if s > 0.875 else "+" if s >= 0.5 else "-" if s > 0 else " "
                            for s in share)
            lines.append("%-*.*s|%s| %5.1f %%" % (label, label, name, marks,
                                                  100 * share.sum() / columns))
        lines.append("%*s %s in all, a column is %s" % (label, "", span(1e3 * self.time_us),
                                                        span(1e3 * step)))
        return Text("\n".join(lines))

    def svg(self, width=1000):
        """The timeline as a picture."""
        from .session_page import svg
        return svg(self, width)

    def page(self, path=None, *, title="Session"):
        """One page for a browser: the timeline, all calls, and the page of each kernel, which opens
        below; written to a file if `path` is given, compressed if that ends in .gz. The kernels'
        pages are of runs with zeros."""
        from .session_page import write
        return write(self, path, title)

    def __str__(self):
        calls = self.calls
        total = self.totals()
        lines = ["%d kernel call%s, %s: %s" % (
            len(calls), "" if len(calls) == 1 else "s", span(1e3 * self.time_us),
            ", ".join("%s %s" % (name, span(1e3 * us)) for name, us in total.items()))]
        if not self.entries:
            return lines[0]
        lines += [self.timeline(), "    start   copies in   launch     kernel     copies out"]
        for e in self.entries:
            lines.append("  %10s  %-10s  %-9s  %-9s  %-10s  %s  %s" % (
                span(1e3 * e.start_us), *(span(1e3 * us) if us else "" for us in (
                    e.copy_in_us, e.launch_us, e.time_us, e.copy_out_us)),
                e.kernel or "(a copy)", e.place))
        if len(calls) > 1:
            lines.append("kernels, the longest first")
            for name, (n, us) in self.by_kernel().items():
                lines.append("  %5.1f %%  %-9s  %d x %s" % (
                    100 * us / (total["kernels"] or 1), span(1e3 * us), n, name))
        return "\n".join(lines)

    def __repr__(self):
        return "<session: %s>" % str(self).split("\n", 1)[0]

    def _repr_html_(self):
        return self.svg() + _pre(str(self))


def session():
    """A session, for `with`: it notes all kernel calls of this process until its end."""
    return Session()


@contextlib.contextmanager
def paused():
    """What happens meanwhile is in no session: copies of checks, which no run of the script has."""
    global _open
    before, _open = _open, []
    try:
        yield
    finally:
        _open = before


# ---- What kernels and devices tell ----

def caller():
    """file:line of the innermost frame that is not of this package."""
    from . import record  # which imports devices, which imports this
    frame = sys._getframe(2)
    while frame.f_back is not None and record.is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return "%s:%d" % (record.shown(frame.f_code.co_filename), frame.f_lineno)


def ran(kernel, target, run):
    """A kernel's run has ended, and its results are fetched; run: a soma.Run."""
    if _open:
        _told(kernel, target, [run], run.time_ns / 1e3)


def ran_in_world(kernel, runs, time_us):
    """The same of the ranks of a world, which start, and copy over links of their own, at once."""
    if _open:
        _told("%s, %d ranks" % (kernel, len(runs)), runs[0].program.target, runs, time_us)


def _told(kernel, target, runs, time_us):
    place, now = caller(), []
    for run in runs:
        now.append(L.Stats())
        lib.soma_run_stats(run.handle, C.byref(now[-1]), C.sizeof(now[-1]))
    before = [run.stats.raw for run in runs]
    for s in _open:
        e = Entry(kernel, place, target, s.time_us)
        e.copy_in_us = max(b.host for b in before) / 1e9
        e.copy_out_us = max(n.host - b.host for n, b in zip(now, before)) / 1e9
        e.launch_us, e.time_us = max(b.launch for b in before) / 1e9, time_us
        e.bytes_in = sum(n.host_to_device for n in now)
        e.bytes_out = sum(n.device_to_host for n in now)
        if len(runs) == 1:
            e.program = runs[0].program
        elif runs[0].recorder:
            e.page = runs[0].page
        s.entries.append(e)


def copied(device, bytes_in=0, bytes_out=0):
    """Bytes were copied to or from a device outside of a kernel call."""
    if not _open:
        return
    place, took = caller(), device.host_us(bytes_in) + device.host_us(bytes_out)
    for s in _open:
        e = Entry(None, place, device.target, s.time_us)
        e.bytes_in, e.bytes_out = bytes_in, bytes_out
        e.copy_in_us, e.copy_out_us = (took, 0.0) if bytes_in else (0.0, took)
        s.entries.append(e)
