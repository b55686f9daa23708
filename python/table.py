"""Prints the tables of README.md: every public name of NKI, and whether it works here.

`python3 python/table.py --write` writes them into README.md between its markers. names.txt has the
names with their source, refused.txt those that are refused and why.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BEGIN, END = "<!-- names: python3 python/table.py --write -->", "<!-- end of names -->"


def lines(name):
    with open(os.path.join(HERE, name)) as f:
        return [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]


def public():
    """[(module, name)] of names.txt."""
    return [tuple(line.split()) for line in lines("names.txt")]


def refusals():
    """{full name: reason} of what is refused."""
    reasons = dict(line.split(" ", 1) for line in lines("refused.txt"))
    found = {}
    for module, name in public():
        reason = reasons.get("%s.%s" % (module, name), reasons.get(module + ".*"))
        if reason and reason != "works":
            found["%s.%s" % (module, name)] = reason
    return found


def wrapped(words, width=96):
    out, line = [], ""
    for w in words:
        if len(line) + len(w) + 2 > width:
            out.append(line)
            line = ""
        line += (", " if line else "") + w
    return out + [line]


def table():
    refused, modules = refusals(), {}
    for module, name in public():
        modules.setdefault(module, []).append(name)
    out = []
    for module, names in modules.items():
        works = [n for n in names if "%s.%s" % (module, n) not in refused]
        if works:
            out += ["", "**%s**: %d of %d" % (module, len(works), len(names)), ""]
            body = wrapped(works)
            out += [line + "," for line in body[:-1]] + [body[-1]]
    out += ["", "Refused, with an error that says so:", "", "| name | why |", "|---|---|"]
    out += ["| `%s` | %s |" % item for item in refused.items()]
    return "\n".join(out) + "\n"


def main():
    if "--write" not in sys.argv:
        sys.stdout.write(table())
        return
    path = os.path.join(HERE, "README.md")
    with open(path) as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    with open(path, "w") as f:
        f.write(before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
