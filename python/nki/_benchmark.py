"""What nki.benchmark measures and prints."""
import sys
import warnings

# Options of the reference. Runs are alike, so warmup and iters change nothing that could be seen.
_KNOWN = {"warmup", "iters", "save_neff_name", "save_trace_name", "working_directory",
          "additional_compile_opt", "style"}
_IGNORED = {"device_count": "one core is emulated", "profile_nth": "runs are alike",
            "overwrite": "files are always written anew"}
_COLUMNS = (("B", 1), ("NC", 1), ("NC USED", 1), ("WEIGHTS", "dynamic"), ("MODE", "LIBMODE"))
_PERCENTILES = (1, 50, 99)


class Latency:
    """Latencies of executions in microseconds: the run and its launch, as on the machine. They are
    alike, so percentiles are too."""

    def __init__(self, microseconds):
        self.microseconds = microseconds

    def get_latency_percentile(self, percentile):
        return self.microseconds

    def __repr__(self):
        return "Latency(%.3f us)" % self.microseconds


class BenchmarkResult:
    """What nki.benchmark measured: nc_latency and the run, whose time_us is without the launch."""

    def __init__(self, run):
        self.nc_latency = Latency(run.time_us + run.stats.launch / 1e9)
        self.run = run


def check_options(call, options):
    """Warns of options that have no effect."""
    for name in options:
        if name in _IGNORED:
            warnings.warn("%s(%s=%r) has no effect: %s" % (call, name, options[name],
                                                           _IGNORED[name]), stacklevel=4)
        elif name not in _KNOWN:
            warnings.warn("%s has no option %s: it has no effect" % (call, name), stacklevel=4)


def table(name, us):
    """The vendor's table. L, the latencies of the host's own clock, are not known here."""
    a_second = "%.2f" % (1e6 / us)
    cells = list(_COLUMNS) + [("INF/S", a_second), ("IRES/S", a_second)]
    cells += [("L(%d)" % p, "N/A") for p in _PERCENTILES]
    cells += [("NCL(%d)" % p, "%d" % round(us)) for p in _PERCENTILES] + [("%USER", "N/A")]
    widths = [max(len(n), len(str(v))) + 2 for n, v in cells]
    rule = "+" + "+".join("-" * w for w in widths) + "+"
    rows = [" " + " ".join(" " + str(c[i]).ljust(w - 1) for c, w in zip(cells, widths)).rstrip()
            for i in (0, 1)]
    return "\n".join([name, rule, rows[0], rows[1], rule, ""])


def show(run, options, us):
    """Prints the table, under the name of the program's file or of the kernel."""
    sys.stdout.write(table(options.get("save_neff_name") or run.built.name, us))
