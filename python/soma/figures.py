"""What a run took, as numbers, text and tables."""
import ctypes as C
import functools
import json

import numpy as np

from . import inside
from . import lib as L
from . import show
from .lib import lib
from .show import Text, span


class RunStats:
    """What a run took. `time_ns` is simulated time; `engines[name]` has busy_ns, waiting_ns and
    instructions; other figures have the names of soma_stats (bytes, counts, femtoseconds)."""

    def __init__(self, s):
        self.raw = s
        self.time_ns = s.time / 1e6

    @functools.cached_property
    def engines(self):
        s = self.raw
        return {
            name: {"busy_ns": s.engine[i].busy / 1e6, "waiting_ns": s.engine[i].waiting / 1e6,
                   "instructions": s.engine[i].instructions,
                   "data_instructions": s.engine[i].data_instructions}
            for i, name in enumerate(L.ENGINES)}

    def __getattr__(self, name):
        if name == "raw":  # of an object that is being copied
            raise AttributeError(name)
        return getattr(self.raw, name)

    def __repr__(self):
        return "<%s, %d instructions, %d bytes by DMA in %d transfers>" % (
            span(self.time_ns), self.instructions, self.dma_bytes, self.dma_transfers)


def figures(stats):
    """{name: value} of soma_figures: fractions of 1, rates a second; active and utilization by
    engine."""
    f = L.Figures()
    lib.soma_stats_figures(C.byref(stats.raw), C.byref(f), C.sizeof(f))
    return {name: dict(zip(L.ENGINES, getattr(f, name))) if name in ("active", "utilization")
            else getattr(f, name) for name, _ in L.Figures._fields_}


def _scaled(value, unit):
    for prefix in ("", "k", "M", "G", "T"):
        if value < 1000 or prefix == "T":
            return "%.*f %s%s" % (2 if prefix else 0, value, prefix, unit)
        value /= 1000


def summary(stats, target=""):
    """A short report: the time, engines, transfers, how far from the machine's peaks."""
    f, ns = figures(stats), stats.time_ns
    whole = ns * stats.cores or 1
    lines = ["machine       " + target] if " " in target else []  # a hypothetical one
    lines += ["simulated time  " + span(ns),
             "engine        busy  waiting  instructions  data path  utilised"]
    for name, e in stats.engines.items():
        if e["instructions"]:
            lines.append("  %-8s %6.1f%% %7.1f%% %13d %10d %10.1f%%" % (
                name, 100 * f["active"][name], 100 * e["waiting_ns"] / whole,
                e["instructions"], e["data_instructions"], 100 * f["utilization"][name]))
    lines.append("dma           %d transfers, %s, %s, active %.1f%%" % (
        stats.dma_transfers, _scaled(stats.dma_bytes, "B"),
        _scaled(stats.dma_bytes / ns * 1e9 if ns else 0, "B/s"), 100 * f["dma_active"]))
    lines.append("hbm           %s read, %s written, MBU %.1f%% of %s" % (
        _scaled(stats.hbm_read_bytes, "B"), _scaled(stats.hbm_write_bytes, "B"), 100 * f["mbu"],
        _scaled(stats.peak_hbm, "B/s")))
    if stats.flops:
        lines.append("pe            MFU %.1f%%, HFU %.1f%%: %s of %s" % (
            100 * f["mfu"], 100 * f["hfu"], _scaled(f["model_flops"], "flop/s"),
            _scaled(f["peak_flops"], "flop/s")))
    lines.append("launch        %s, not part of the simulated time" % span(stats.launch / 1e6))
    lines.append("host-device   %s in, %s out, %s" % (
        _scaled(stats.host_to_device, "B"), _scaled(stats.device_to_host, "B"),
        span(stats.host / 1e6)))
    return Text("\n".join(lines))


def _tables():
    names = []
    while True:
        name = lib.soma_table_name(len(names))
        if name is None:
            return tuple(names)
        names.append(name.decode())


TABLES = _tables()
_CSV, _JSON_LINES = 0, 1


def table(run, name):
    """A table of a recorded run as {column: array}, rows in order of time. Numbers are int64 or
    float64, with nan where a row has none; texts are strings, "" where a row has none."""
    if name not in TABLES:
        raise ValueError("no table is called %r; there are %s" % (name, ", ".join(TABLES)))
    run._need_recorder()
    which = run.recorder.handle, run.program.handle, TABLES.index(name)
    rows = [json.loads(line) for line in
            run._written(lib.soma_write_table, *which, _JSON_LINES).splitlines()]
    names = rows[0] if rows else \
        run._written(lib.soma_write_table, *which, _CSV).splitlines()[0].split(",")
    return {n: _column([row[n] for row in rows]) for n in names}


def _column(values):
    there = [v for v in values if v is not None]
    if any(isinstance(v, str) for v in there):
        return np.array(["" if v is None else v for v in values])
    if len(there) < len(values) or any(isinstance(v, float) for v in there):
        return np.array([np.nan if v is None else v for v in values], np.float64)
    return np.array(values, np.int64)


class Told:
    """What a run tells of itself: figures, tables, and how it shows itself."""

    def __repr__(self):
        return "<run on %s: %s, %s; out: %s>" % (
            self.machine.target, span(self.time_ns), show.count(self.findings_total),
            ", ".join(n for n, t in self.program.tensors.items() if t[2] == "output") or "nothing")

    def _repr_html_(self):
        return show.of_run(self, repr(self), "Soma")

    @property
    def figures(self):
        """What the run achieved of what the machine can, {name: value} of soma_figures: "mfu",
        "hfu", "mbu", "active" by engine ... as fractions of 1."""
        return figures(self.stats)

    def summary(self):
        """A short report as text."""
        return summary(self.stats, self.machine.target)

    def table(self, name):
        """A table of a recorded run as {column: array}: "Instruction", "DmaPacket",
        "SemaphoreUpdate", "ActiveTime" or "Summary", of a rank of a world also "CcOp",
        "CcInstruction" or "CcStream", with the columns of soma_trace.h."""
        return table(self, name)

    def critical_path(self):
        """The critical path of a recorded run, earliest first: dicts with kind, engine, name,
        cause, file, line, start_ns, end_ns, queue, semaphore ..."""
        return inside.critical_path(self)

    def idle_gaps(self, most=None):
        """The engines' idle gaps of a recorded run, the largest first: dicts with kind, engine,
        start_ns, end_ns, semaphore, and what was late."""
        return inside.idle_gaps(self, most)
