"""make nki DIR=FOLDER [ONLY=PATTERN]: runs the kernels of the repositories checked out in FOLDER.
Prints a row for each, and "N passed, N failed" at the end."""
import importlib
import os
import sys
import warnings

here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(here, "..", "..", "python"), here]
sys.path.append(os.path.join(here, "standins"))

GROUPS = ("sdk", "asst4", "samples", "history", "autocomp", "autocomp_plain", "inference",
          "nkipy_examples", "viz", "library", "ranks", "ranks_older", "mx", "threads")


def main(arguments):
    verbose = "-v" in arguments
    arguments = [a for a in arguments if a != "-v"]
    if not arguments or not os.path.isdir(arguments[0]):
        print("usage: run.py FOLDER-OF-CHECKOUTS [PATTERN]: see tests/README.md", file=sys.stderr)
        return 2
    import harness
    warnings.simplefilter("ignore")
    table = harness.Table(arguments[1] if len(arguments) > 1 else "", verbose)
    for name in GROUPS:
        group = importlib.import_module(name)
        folder = os.path.join(os.path.abspath(arguments[0]), group.FOLDER)
        if os.path.isdir(folder):
            group.cases(table, folder)
        else:
            print("%s: not in %s, not run" % (group.FOLDER, arguments[0]))
    return table.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
