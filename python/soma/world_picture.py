"""What the ranks of a world did over time, as a picture: engines, collectives, and who waited for
whose push."""
import html
import json
import re

_ROWS = ("tensor", "vector", "scalar", "gpsimd", "collectives", "cc0", "cc1", "cc2")
_COLORS = {"tensor": "#4e79a7", "vector": "#59a14f", "scalar": "#f28e2b", "gpsimd": "#b07aa1",
           "collectives": "#e8c3cf", "push": "#d0546a", "local": "#d9a441", "wait": "#dedede"}
_LEGEND = (("push", "pushes to other ranks"), ("local", "sums and copies of its own"),
           ("wait", "waits"))
_APART = ("collectives", "push", "local")  # each is seen; others that touch are one bar
_ROW, _GAP, _LEFT, _RIGHT = 16, 10, 150, 30


class _Trace:
    """The trace of a world, which is that of Chrome: bars by row, and arrows from rank to rank."""

    def __init__(self, run):
        self.bars, self.arrows, self.names, posts = {}, [], {}, {}
        events = json.loads(run.trace())
        events = events["traceEvents"] if isinstance(events, dict) else events
        for e in events:
            if e["ph"] == "M" and e["name"] in ("process_name", "thread_name"):
                self.names[e["pid"], e.get("tid")] = e["args"]["name"]
        for e in events:
            place = self.names.get((e.get("pid"), None), "")
            unit = re.match(r"rank \d+( core \d+)?", place)
            if not unit:
                continue
            if e["ph"] == "X":
                self._bar(unit[0], e)
            elif e["ph"] == "s":
                posts[e["id"]] = unit[0], e["ts"]
            elif e["ph"] == "f" and e["id"] in posts and posts[e["id"]][0] != unit[0]:
                self.arrows.append(posts[e["id"]] + (unit[0], e["ts"], self._engine(e)))
        for c in run.collectives:
            unit = "rank %d core %d" % (c.rank, c.core)
            unit = unit if any(u == unit for u, _ in self.bars) else "rank %d" % c.rank
            self.bars.setdefault((unit, "collectives"), []).append(
                ("collectives", c.start_ns / 1e3, (c.start_ns + c.time_ns) / 1e3,
                 c.op.replace("collective_", "")))

    def _engine(self, e):
        return re.match(r"\w*", self.names.get((e["pid"], e["tid"]), ""))[0]

    def _bar(self, unit, e):
        row, queue = self._engine(e), re.match(r"qcc(\d)(_local)?", e.get("args", {}).get(
            "queue", "") or self.names.get((e["pid"], e["tid"]), ""))
        if e["cat"] == "transfer" and queue:
            row, kind = "cc" + queue[1], "local" if queue[2] else "push"
        elif e["cat"] == "wait" and row.startswith("cc"):
            kind = "wait"
        elif e["cat"] == "insn" and not row.startswith("cc"):
            kind = row
        else:
            return
        self.bars.setdefault((unit, row), []).append((kind, e["ts"], e["ts"] + e["dur"], None))


def _joined(bars, least):
    """Bars of one kind, with no gaps smaller than `least` between them."""
    found = []
    for start, end in sorted(bars):
        if found and start - found[-1][1] < least:
            found[-1][1] = max(end, found[-1][1])
        else:
            found.append([start, end])
    return found


class _Picture:
    def __init__(self, run, width, rows):
        self.trace, self.us = _Trace(run), max(run.time_us, 1e-3)
        self.scale = (width - _LEFT - _RIGHT) / self.us
        wanted = [(u, r) for u in sorted({u for u, _ in self.trace.bars},
                                         key=lambda u: [int(n) for n in re.findall(r"\d+", u)])
                  for r in rows if (u, r) in self.trace.bars]
        self.at, self.text, y = {}, [], 28
        for i, (unit, row) in enumerate(wanted):
            first = i == 0 or wanted[i - 1][0] != unit
            y += _GAP if first and i else 0
            if first:
                self.word(8, y + 12, unit, "font-weight=\"bold\"")
            self.word(_LEFT - 8, y + 12, row, "text-anchor=\"end\"")
            self.at[unit, row] = y
            y += _ROW
        self.bottom = y

    def x(self, us):
        return _LEFT + us * self.scale

    def word(self, x, y, text, more=""):
        self.text.append("<text x=\"%.1f\" y=\"%d\" %s>%s</text>" % (x, y, more,
                                                                   html.escape(text)))

    def box(self, y, kind, spans, less):
        path = "".join("M%.1f %dh%.1fv%dh-%.1fz" % (self.x(s), y + 2, w, _ROW - 4, w)
                       for s, e in spans for w in [max((e - s) * self.scale - less, 0.4)])
        self.text.append("<path d=\"%s\" fill=\"%s\"/>" % (path, _COLORS[kind]))

    def rows(self):
        for place, y in self.at.items():
            by_kind = {}
            for kind, start, end, _ in self.trace.bars[place]:
                by_kind.setdefault(kind, []).append((start, end))
            for kind in sorted(by_kind, key=("wait", "local", "push").index
                               if "wait" in by_kind else None):
                apart = kind in _APART
                self.box(y, kind, sorted(by_kind[kind]) if apart else
                         _joined(by_kind[kind], 0.5 / self.scale), 0.6 * apart)
            for _, start, end, name in self.trace.bars[place]:
                if name and (end - start) * self.scale > 6 * len(name) + 6:
                    self.word(self.x(start) + 4, y + 12, name, "font-size=\"10\"")

    def arrows(self):
        lines = []
        for sender, left, receiver, came, row in self.trace.arrows:
            a, b = self.at.get((sender, row)), self.at.get((receiver, row))
            if a is not None and b is not None:
                low, high = _ROW - 2, 2  # of a bar
                out, into = (low, high) if b > a else (high, low)
                lines.append("<path d=\"M%.1f %dL%.1f %d\"/>" % (self.x(left), a + out,
                                                                self.x(came), b + into))
        if lines:  # a path of its own each: a marker stands at the end of a path
            self.text.append("<g stroke=\"#333\" stroke-width=\"0.7\" marker-end=\"url(#a)\">%s</g>"
                             % "".join(dict.fromkeys(lines)))

    def axis(self):
        step = next(s * 10 ** n for n in range(-3, 9) for s in (1, 2, 5)
                    if self.us / (s * 10 ** n) <= 10)
        for i in range(int(self.us / step) + 1):
            x = self.x(i * step)
            self.text.insert(0, "<path d=\"M%.1f 24V%d\" stroke=\"#eee\"/>" % (x, self.bottom))
            self.word(x, 18, "%g us" % (i * step) if i else "0", "text-anchor=\"middle\"")

    def legend(self):
        x = _LEFT
        kinds = {k for place in self.at for k, *_ in self.trace.bars[place]}
        for kind, text in _LEGEND:
            if kind in kinds:
                self.text.append("<path d=\"M%d %dh12v12h-12z\" fill=\"%s\"/>" % (
                    x, self.bottom + 10, _COLORS[kind]))
                self.word(x + 17, self.bottom + 20, text)
                x += 45 + 6.5 * len(text)
        if self.trace.arrows and x > _LEFT:
            self.word(x, self.bottom + 20, "arrows: what a wait for another rank has ended")


def svg(run, width=1000, rows=None):
    """A row for each engine of each rank that did anything, its collectives and CC sequencers, with
    arrows from pushes to the waits of other ranks that they ended. rows: names of those wanted."""
    if not isinstance(width, (int, float)) or not _LEFT + _RIGHT < width < 1e5:
        raise ValueError("width=%r: it is a number of pixels, more than %d" % (width,
                                                                             _LEFT + _RIGHT))
    for row in rows or ():
        if row not in _ROWS:
            raise ValueError("rows=%r: there are %s" % (rows, ", ".join(_ROWS)))
    p = _Picture(run, width, rows or _ROWS)
    p.axis()
    p.rows()
    p.arrows()
    p.legend()
    head = ("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family="
            "\"sans-serif\" font-size=\"12\" fill=\"#222\">" % (width, p.bottom + 30))
    tip = ("<defs><marker id=\"a\" markerWidth=\"6\" markerHeight=\"6\" refX=\"5\" refY=\"3\" "
           "orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#333\"/></marker></defs>")
    ground = "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    return head + tip + ground + "".join(p.text) + "</svg>\n"
