"""Two runs beside each other."""
import html

from . import files
from .show import Text, _pre, span


def _by_line(run):
    """{line of the source: nanoseconds of its instructions in data paths and of its triggers}."""
    table, found = run.table("Instruction"), {}
    for place, ns in zip(table["nki_source_location"], table["duration_fs"] / 1e6):
        if place:
            found[place] = found.get(place, 0.0) + float(ns)
    return found


class Comparison:
    """`before` and `now`, two recorded runs of kernels. print() shows how they differ; `lines` is
    [(line, nanoseconds before, now)] of the lines whose times differ, the largest difference
    first."""

    def __init__(self, before, now):
        self.before, self.now = before, now
        old, new = _by_line(before), _by_line(now)
        self.lines = sorted(((place, old.get(place, 0.0), new.get(place, 0.0))
                             for place in old.keys() | new.keys()
                             if abs(old.get(place, 0.0) - new.get(place, 0.0)) >= 0.5),
                            key=lambda row: (-abs(row[2] - row[1]), row[0]))

    @property
    def speedup(self):
        return self.before.time_ns / self.now.time_ns

    def __str__(self):
        a, b = self.before, self.now
        lines = ["%s %s, then %s %s: %.3f times as fast" % (
            a.built.name, span(a.time_ns), b.built.name, span(b.time_ns), self.speedup),
            "  busy        before        now"]
        for name in a.stats.engines:
            old, new = (r.stats.engines[name]["busy_ns"] for r in (a, b))
            if old or new:
                lines.append("  %-9s %9s  %9s" % (name, span(old), span(new)))
        for what, name in (("DMA bytes", "dma_bytes"), ("transfers", "dma_transfers"),
                           ("instructions", "instructions")):
            lines.append("  %-12s %6d  %9d" % (what, getattr(a.stats, name),
                                               getattr(b.stats, name)))
        lines.append("lines whose instructions take another time")
        for place, old, new in self.lines[:20]:
            lines.append("  %9s  %9s  %s%s  %s" % (span(old), span(new), "+" if new > old else "-",
                                                   span(abs(new - old)), place))
        if not self.lines:
            lines[-1] = "all lines take the same time"
        elif len(self.lines) > 20:
            lines.append("  and %d more" % (len(self.lines) - 20))
        return "\n".join(lines)

    def __repr__(self):
        return "<%s>" % str(self).split("\n", 1)[0]

    def text(self):
        return Text(str(self))

    def page(self, path=None, *, title="Two runs"):
        """A page with the comparison and the pages of both runs; written to a file if `path` is
        given, compressed if that ends in .gz."""
        return page(path, title, _pre(str(self)), [
            ("before: %s, %s" % (self.before.built.name, span(self.before.time_ns)),
             self.before.page(title="before")),
            ("now: %s, %s" % (self.now.built.name, span(self.now.time_ns)),
             self.now.page(title="now"))], opened=True)

    def _repr_html_(self):
        return _pre(str(self))


def page(path, title, head, pages, opened=False):
    """One page: `head`, and below it other pages, each of which opens: [(title, page)]."""
    parts = ["<!doctype html><meta charset=\"utf-8\"><title>%s</title><style>body { font: 14px "
             "sans-serif; margin: 16px } iframe { width: 100%%; height: 85vh; border: 1px solid "
             "#bbb } summary { cursor: pointer; padding: 4px }</style><h1>%s</h1>"
             % ((html.escape(title),) * 2), head]
    for name, text in pages:
        parts.append("<details%s><summary>%s</summary><iframe srcdoc=\"%s\"></iframe></details>"
                     % (" open" if opened else "", html.escape(name),
                        html.escape(text, quote=True)))
    text = "\n".join(parts) + "\n"
    if path is not None:
        files.write(path, files.named(path, text))
    return text
