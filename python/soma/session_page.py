"""A session as a picture, and as one page in which each kernel opens into its own."""
import html

import numpy as np

from . import arrays
from .compare import page
from .machine import Machine
from .show import span

_COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#e15759", "#edc948", "#9c755f")
_ROW, _LEFT = 22, 170


def svg(session, width=1000):
    """The timeline: a row for copies, launches and each kernel."""
    names = session.rows()
    colors = {row: "#999" if row in (0, 1) else _COLORS[i % len(_COLORS)]
              for i, row in enumerate(names, -2)}
    total, scale = session.time_us or 1.0, width - _LEFT - 70
    lines = []
    for i, (row, name) in enumerate(names.items()):
        y = i * _ROW + 4
        parts = [(s, e) for entry in session.entries for r, s, e in entry.parts() if r == row]
        lines.append("<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>"
                     % (_LEFT - 8, y + 13, html.escape(name[:24])))
        path = "".join("M%.2f %dh%.2fv16h-%.2fz" % (_LEFT + s / total * scale, y, w, w)
                       for s, e in parts for w in [max((e - s) / total * scale, 0.3)])
        lines.append("<path d=\"%s\" fill=\"%s\"/>" % (path, colors[row]))
        lines.append("<text x=\"%d\" y=\"%d\">%.1f %%</text>" % (
            width - 62, y + 13, 100 * sum(e - s for s, e in parts) / total))
    height = len(names) * _ROW + 26
    lines += ["<text x=\"%d\" y=\"%d\">0</text>" % (_LEFT, height - 6),
              "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>"
              % (_LEFT + scale, height - 6, span(1e3 * session.time_us))]
    return ("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family="
            "\"sans-serif\" font-size=\"12\" fill=\"#222\"><rect width=\"100%%\" height=\"100%%\" "
            "fill=\"#fff\"/>%s</svg>" % (width, height, "".join(lines)))


def _page_of(entry):
    """The page of a program, by a run that calculates times alone, with zeros."""
    if entry.page:
        return entry.page(title="rank 0 of " + entry.kernel)
    inputs = {}
    for name, (dtype, shape, role) in entry.program.tensors.items():
        if role == "input":
            inputs[name] = arrays.empty(shape, dtype)[0] if dtype.packed or \
                dtype.numpy.kind == "V" else np.zeros(shape, dtype.numpy)
    machine = Machine(entry.target, record=True, timing_only=True)
    return machine.run(entry.program, inputs).page(title=entry.kernel)


def write(session, path=None, title="Session"):
    """The page as text; written to a file if `path` is given."""
    rows, programs = [], {}
    for entry in session.entries:
        if entry.program or entry.page:
            programs.setdefault(id(entry.program or entry), []).append(entry)
        rows.append("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(str(v)) for v in (
            span(1e3 * entry.start_us), entry.kernel or "(a copy)", entry.place,
            *(span(1e3 * us) if us else "" for us in (entry.copy_in_us, entry.launch_us,
                                                      entry.time_us, entry.copy_out_us)))))
    head = "<p>%s: %s</p>%s<details><summary>all %d calls and copies</summary><table " \
        "border=\"1\" cellpadding=\"4\" " \
        "style=\"border-collapse: collapse\"><tr><th>start<th>kernel<th>line" \
        "<th>copies in<th>launch<th>time<th>copies out</tr>%s</table></details>" % (
            span(1e3 * session.time_us),
            ", ".join("%s %s" % (n, span(1e3 * us)) for n, us in session.totals().items()),
            svg(session), len(session.entries), "\n".join(rows))
    longest = sorted(programs.values(), key=lambda calls: -sum(c.time_us for c in calls))
    pages = [("%s, %s: %d x %s" % (calls[0].kernel, calls[0].place, len(calls),
                                   span(1e3 * calls[0].time_us)), _page_of(calls[0]))
             for calls in longest]
    return page(path, title, head, pages)
