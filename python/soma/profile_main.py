"""The command neuron-profile over what nki.benchmark, nki.profile and nki.baremetal saved: beside
X.neff (a program) and X.ntff (a trace) stands X.neff.summary.json, the figures of the run. Needs
only Python's own modules."""
import argparse
import json
import os
import runpy
import sys

SUFFIX = ".summary.json"
_DESCRIPTION = """Soma's, not the vendor's: shows the figures of runs that nki.benchmark,
nki.profile and nki.baremetal saved (save_neff_name=, save_trace_name=). Nothing runs here."""


class ProfileError(Exception):
    """What the command says and ends with status 1."""


def saved(figures, name, target, version):
    """The text of a summary file: `figures` is a run's table Summary as {name: number}. The
    vendor's command shows shares as fractions of 1."""
    shown = {key: float("%.9g" % (value / 100)) if key.endswith("_percent") else value
             for key, value in figures.items()}
    shown.update(nc_idx=0, nd_idx=0, instance_type=target, profiler_version="soma " + version)
    return json.dumps({"soma": version, "kernel": name, "summary": shown}) + "\n"


def _read(path):
    """The summary in a file, None if the file is not there or is another."""
    try:
        with open(path, encoding="utf-8") as f:
            found = json.load(f)
    except (OSError, UnicodeDecodeError, ValueError):
        return None
    return found if isinstance(found, dict) and "soma" in found and "summary" in found else None


def _find(options):
    """The summary of the files that a command names."""
    files = [f for f in (options.session, options.neff) if f]
    if not files:
        raise ProfileError("give the program (-n X.neff), the profile (-s X.ntff) or both")
    for file in files:
        found = _read(file) or _read(file + SUFFIX)
        if found:
            return found
    raise ProfileError("no figures were saved for %s: nki.benchmark(save_neff_name=...) of Soma "
                       "saves them" % " and ".join(files))


def _write(name, text):
    """Writes by files.py alone: the package would load libsoma."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.py")
    runpy.run_path(place)["write"](name, text.encode())


def _capture(options):
    found = _find(argparse.Namespace(neff=options.neff, session=None))
    base = options.session[:-5] if options.session.endswith(".ntff") else options.session
    names = ["%s_exec_%d.ntff" % (base, options.num_exec)] if options.profile_nth_exec else \
        [options.session]
    for name in names:
        _write(name, json.dumps(found))
    sys.stderr.write("neuron-profile (Soma): capture runs nothing, the figures are those of the "
                     "run that saved %s; written to %s\n" % (options.neff, " ".join(names)))


def _view(options):
    found = _find(options)
    node = "n_" + "".join(c if c.isalnum() else "_" for c in found["kernel"])
    if options.output_format == "summary-json":
        text = json.dumps({node: found["summary"]}) + "\n"
    else:
        rows = ["    %-43s %s\n" % (k, v) for k, v in sorted(found["summary"].items())]
        text = node + "\n" + "".join(rows)
    if not options.output_file:
        sys.stdout.write(text)
        return
    _write(options.output_file, text)


def _parser():
    parser = argparse.ArgumentParser(prog="neuron-profile", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    capture = commands.add_parser("capture", help="writes the saved figures to X.ntff")
    view = commands.add_parser("view", help="prints the saved figures")
    for each in (capture, view):
        each.add_argument("-n", "--neff-path", dest="neff", metavar="X.neff")
        each.add_argument("-s", "--session-file", dest="session", metavar="X.ntff")
    capture.set_defaults(run=_capture, session="profile.ntff")
    capture.add_argument("--num-exec", type=int, default=1, metavar="N")
    capture.add_argument("--profile-nth-exec", type=int, default=0, metavar="N",
                         help="the name of the file is then X_exec_N.ntff")
    view.set_defaults(run=_view)
    view.add_argument("--output-format", choices=("summary-text", "summary-json"), required=True,
                      help="the vendor's other formats are not built: Soma's pages show the rest")
    view.add_argument("--output-file", metavar="FILE")
    return parser


def main(words):
    options = _parser().parse_args(words)
    try:
        options.run(options)
    except (ProfileError, OSError) as error:
        sys.stderr.write("neuron-profile (Soma): %s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are soma's
    sys.exit(main(sys.argv[1:]))
