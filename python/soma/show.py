"""How runs, texts and findings show themselves: repr, and HTML in a notebook."""
import html

PAGE_HEIGHT = 600  # of a page in a notebook, in pixels


def span(ns):
    """A time for people, with the digits of the timeline: "6.27 us"."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit:
            break
    else:
        unit, name = 1, "ns"
    n = ns / unit
    return "0 ns" if not ns else "%.*f %s" % (2 if n < 99.995 else 1, n, name)


def count(findings):
    """ "no findings", "1 finding", "3 findings"."""
    return "%s finding%s" % (findings or "no", "" if findings == 1 else "s")


def _pre(text):
    return '<pre style="line-height: 1.2">%s</pre>' % html.escape(text, quote=False)


class Text(str):
    """A text of several lines: a notebook shows it as lines, not as a string with \\n."""

    __slots__ = ()

    def _repr_html_(self):
        return _pre(self)


class Findings(list):
    """A list of findings: a notebook shows the text of each. `twins`, of kernel.check(): how many
    pairs of transfers are no race only because both cores write the same bytes from one line; of
    several schedules, the most."""

    twins = 0

    def _repr_html_(self):
        return "".join(f._repr_html_() for f in self) or _pre("no findings")


def of_finding(finding):
    """A finding: its first line in bold, then the rest."""
    first, _, rest = finding.text.rstrip("\n").partition("\n")
    return '<pre style="line-height: 1.2"><b>%s</b>%s</pre>' % (
        html.escape(first, quote=False), html.escape("\n" + rest, quote=False) if rest else "")


def of_run(run, told, title):
    """A run: a line told of it, its findings, the timeline, and the page to open below, if it was
    recorded. `run` is a soma.Run, `title` the page's."""
    parts = [_pre(told)] + [of_finding(f) for f in run.findings]
    if run.recorder:
        page = html.escape(run.page(title=title), quote=True)
        parts += [_pre(run.timeline()), "<details><summary>page</summary><iframe style=\"width: "
                  "100%%; height: %dpx; border: 0\" srcdoc=\"%s\"></iframe></details>"
                  % (PAGE_HEIGHT, page)]
    return "".join(parts)
