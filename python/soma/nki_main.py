"""What soma-nki runs: a Python script with this package's `nki` and `neuronxcc` first on
sys.path."""
import os
import sys

USAGE = """usage: soma-nki SCRIPT.py [ARGUMENTS]
       soma-nki -m MODULE [ARGUMENTS]
       soma-nki -c CODE [ARGUMENTS]

Runs a Python script whose kernels are written for NKI (import nki, or neuronxcc.nki) on an
emulated core. Kernels are called with NumPy arrays. There are --help and --version.

  NEURON_PLATFORM_TARGET_OVERRIDE   the target: trn1, inf2, trn2 (the default) or trn3
  SOMA_PYTHON                       the interpreter; it needs NumPy
  SOMA_LIB                          libsoma.so, where it is not the one of this installation
"""


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        (sys.stdout if arguments else sys.stderr).write(USAGE)
        return 0 if arguments else 2
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.stderr.write("soma-nki: %s has no NumPy: install it there (Debian: python3-numpy), or "
                         "set SOMA_PYTHON to an interpreter that has it\n" % sys.executable)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    packages = os.path.dirname(here)
    import runpy
    if os.path.exists(sys.path[0]) and os.path.samefile(sys.path[0], here):
        del sys.path[0]  # Python put the folder of this file there
    if os.path.isdir(os.path.join(here, "names")):  # installed by pip
        packages = os.path.join(here, "names")
    sys.path.insert(0, packages)
    if arguments[0] == "--version":
        import soma
        print("soma-nki %s" % soma.__version__)
        return 0
    if arguments[0] in ("-m", "-c") and len(arguments) == 1:
        what = "a module" if arguments[0] == "-m" else "Python code"
        sys.stderr.write("soma-nki: %s needs %s\n" % (arguments[0], what))
        return 2
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(1, os.getcwd())
        import importlib.util
        try:
            known = importlib.util.find_spec(arguments[1])
        except (ImportError, ValueError):
            known = None
        if known is None:
            sys.stderr.write("soma-nki: there is no module %s\n" % arguments[1])
            return 2
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c"] + arguments[2:]
        sys.path.insert(1, os.getcwd())
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        if arguments[0].startswith("-"):
            sys.stderr.write("soma-nki: there is no option %s: -m, -c, --help or --version\n" %
                             arguments[0])
            return 2
        if not os.path.exists(arguments[0]):
            sys.stderr.write("soma-nki: no file %s\n" % arguments[0])
            return 2
        sys.argv = arguments
        sys.path.insert(1, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


def command():
    """The command, and the console script that pip installs: main's status, or the script's own,
    which the system would cut to eight bits."""
    try:
        return main(sys.argv[1:])
    except SystemExit as end:
        if isinstance(end.code, int) and not 0 <= end.code <= 255:
            sys.stderr.write("soma-nki: the script called sys.exit(%d): an exit status is 0 to "
                             "255\n" % end.code)
            return 1
        raise
    except Exception as error:  # as Python shows it, without the frames that started the script
        at = error.__traceback__
        while at is not None and (at.tb_frame.f_code.co_filename == __file__ or
                                  at.tb_frame.f_globals.get("__name__") == "runpy"):
            at = at.tb_next
        if at is None:
            raise
        sys.excepthook(type(error), error.with_traceback(at), at)
        return 1


if __name__ == "__main__":
    sys.exit(command())
