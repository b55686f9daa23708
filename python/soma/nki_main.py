"""What soma-nki runs: a Python script with this package's `nki` and `neuronxcc` first on
sys.path."""
import importlib.util
import os
import runpy
import shlex
import sys

USAGE = """usage: soma-nki [OPTIONS] SCRIPT.py [ARGUMENTS]
       soma-nki [OPTIONS] -m MODULE [ARGUMENTS]
       soma-nki [OPTIONS] -c CODE [ARGUMENTS]
       soma-nki -n RANKS [OPTIONS] SCRIPT.py ...
       mpirun -n PROCESSES soma-nki --mpi [OPTIONS] SCRIPT.py ...
       eval "$(soma-nki [OPTIONS] --env)"
       soma-nki [OPTIONS] --install-kernelspec [PREFIX]
       soma-nki --sandbox [OPTIONS] SCRIPT.py ...    (see --sandbox --help)
       soma-nki --dap                                 (for editors)

Runs a Python script whose kernels are written for NKI (import nki, or neuronxcc.nki) on an
emulated core. Kernels are called with NumPy arrays. There are --help and --version.

Options look at every call of a kernel, without an edit of the script:

%s
-n starts the script as so many processes, one a rank, with RANK, LOCAL_RANK, WORLD_SIZE and so on;
each call of a kernel with collectives is one run of all ranks. Lines of standard error say which
rank they are of.

--mpi: the processes of an MPI job move the ranks of each soma.world together, and all get the same
results; process 0 prints and writes files. It needs mpi4py.

What they print goes to standard error. The exit status is 3 if checks find something and the script
ends well. --env prints the shell commands after which `python3 SCRIPT.py` and all its children do
the same. --install-kernelspec gives Jupyter a kernel with these options, for this user or below
PREFIX.

  SOMA_NKI_OPTIONS                  more such options, as for notebooks and child processes
  NEURON_PLATFORM_TARGET_OVERRIDE   the target: trn1, inf2, trn2 (the default) or trn3
  SOMA_PYTHON                       the interpreter; it needs NumPy
  SOMA_LIB                          libsoma.so, where it is not the one of this installation
"""


def main(arguments):
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.stderr.write("soma-nki: %s has no NumPy: install it there (Debian: python3-numpy), or "
                         "set SOMA_PYTHON to an interpreter that has it\n" % sys.executable)
        return 2
    packages = _packages()
    sys.path.insert(0, packages)
    # Last: commands and packages that stand in for the vendor's where those are absent.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), _bin()])
    sys.path.append(os.path.join(packages, "compat"))
    if arguments[:1] == ["--confined"]:  # which the sandbox starts
        from soma import confined
        return confined.main(int(arguments[1]))
    at = _option(arguments, "--mpi")
    if at is not None:
        return _run_in_job(arguments[:at] + arguments[at + 1:], packages)
    return _main(arguments, packages)


def _main(arguments, packages):
    if arguments == ["--dap"]:
        from soma import dap
        return dap.main()
    if arguments[:1] == ["--sandbox"]:
        from soma import sandbox
        return sandbox.main(arguments)
    from soma import look
    ranks = _option(arguments, "-n")
    if ranks is not None:
        return _start_ranks(arguments[ranks + 1:], arguments[:ranks])
    try:
        words = look.begin(arguments)
    except look.OptionError as error:
        return _refuse(str(error))
    if not words or words[0] in ("-h", "--help"):
        (sys.stdout if words else sys.stderr).write(USAGE % look.help_text())
        return 0 if words else 2
    if words[0] == "--version":
        import soma
        print("soma-nki %s" % soma.__version__)
        return 0
    if words[0] == "--env":
        sys.stdout.write(_environment(packages))
        return 0
    if words[0] == "--install-kernelspec":
        return _install_kernelspec(words[1:])
    return look.status_of(_run(words))


def _run_in_job(arguments, packages):
    from soma import errors, share
    if not arguments or _option(arguments, "-n") is not None or arguments[0] == "--sandbox":
        return _refuse("--mpi needs a script, and goes with neither -n nor --sandbox")
    try:
        job = share.begin()
    except errors.SomaError as error:
        return _refuse(str(error))
    if job is None:
        return _main(arguments, packages)
    status = 1
    try:
        status = _status_of(_main, arguments, packages)
    except SystemExit as end:
        status = 0 if end.code is None else end.code
        if not isinstance(status, int):
            job.say("%s\n" % end.code)
            status = 1
    except BaseException:
        job.fail(*sys.exc_info())
    job.end(status)
    return status


def _install_kernelspec(words):
    from soma import notebook
    if len(words) > 1:
        return _refuse("--install-kernelspec takes one folder")
    try:
        folder = notebook.install_kernelspec(*map(os.path.abspath, words))
    except ImportError as error:
        return _refuse("%s: Jupyter's kernel needs ipykernel in %s (Debian: python3-ipykernel)"
                       % (error, sys.executable))
    except OSError as error:
        return _refuse("--install-kernelspec: %s" % error)
    print("%s: the kernel %s of Jupyter" % (folder, notebook.KERNEL))
    return 0


def _option(words, name):
    """Where an option is among those before the script; None: nowhere."""
    for i, word in enumerate(words):
        if word == name:
            return i
        if not word.startswith("-") or word in ("-m", "-c"):
            break
    return None


def _start_ranks(words, options):
    """The script as several processes, with these options and those among the words."""
    from soma import processes
    if len(words) < 2 or not words[0].isdecimal() or not 1 <= int(words[0]) <= processes.MOST:
        return _refuse("-n needs a number of ranks, 1 to %d, and a script" % processes.MOST)
    command = [sys.executable, os.path.abspath(__file__)] + options + words[1:]
    return processes.start(int(words[0]), command)


def _refuse(text):
    sys.stderr.write("soma-nki: %s\n" % text)
    return 2


def _packages():
    """The folder that has `nki` and `neuronxcc`; that of this file is taken off sys.path."""
    here = os.path.dirname(os.path.abspath(__file__))
    if os.path.exists(sys.path[0]) and os.path.samefile(sys.path[0], here):
        del sys.path[0]  # Python put it there
    names = os.path.join(here, "names")  # there if installed by pip
    return names if os.path.isdir(names) else os.path.dirname(here)


def _bin():
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _environment(packages):
    """Shell commands that export what a script needs that python3 starts."""
    compat = os.path.join(packages, "compat")
    folders = [packages, os.environ.get("PYTHONPATH")]
    sys.path.remove(compat)
    if not any(map(importlib.util.find_spec, sorted(os.listdir(compat)))):
        folders.append(compat)  # PYTHONPATH comes before the folders of the real ones
    values = {"PYTHONPATH": os.pathsep.join(filter(None, folders)), "SOMA_PYTHON": sys.executable}
    for name in ("SOMA_LIB", "SOMA_NKI_OPTIONS"):
        if os.environ.get(name):
            values[name] = os.environ[name]
    lines = ["export %s=%s\n" % (n, shlex.quote(v)) for n, v in values.items()]
    return "".join(lines) + "export PATH=%s:$PATH\n" % shlex.quote(_bin())


def _run(words):
    """Runs a script, a module or code; 2 if there is nothing to run."""
    if words[0] in ("-m", "-c") and len(words) == 1:
        return _refuse("%s needs %s" % (words[0],
                                        "a module" if words[0] == "-m" else "Python code"))
    if words[0] == "-m":
        return _run_module(words[1:])
    if words[0] == "-c":
        sys.argv = ["-c"] + words[2:]
        sys.path.insert(1, os.getcwd())
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
        return 0
    if words[0] == "-n":
        return _refuse("-n RANKS comes first: soma-nki -n 2 [OPTIONS] SCRIPT.py")
    if words[0].startswith("-"):
        return _refuse("there is no option %s: --help lists them" % words[0])
    if not os.path.exists(words[0]):
        return _refuse("no file %s" % words[0])
    sys.argv = words
    sys.path.insert(1, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")
    return 0


def _run_module(words):
    sys.argv = words
    sys.path.insert(1, os.getcwd())
    if words[0] == "pytest":
        plugins = os.environ.get("PYTEST_PLUGINS")
        os.environ["PYTEST_PLUGINS"] = ",".join(filter(None, [plugins, "soma.pytest_plugin"]))
    try:
        known = importlib.util.find_spec(words[0])
    except ModuleNotFoundError as error:
        # Of the packages on the way; what one of them fails to import is the user's to see.
        if error.name is None or not (words[0] + ".").startswith(error.name + "."):
            raise
        known = None
    except ValueError:
        known = None
    if known is None:
        return _refuse("there is no module %s" % words[0])
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    return 0


def command():
    """The command, and the console script that pip installs: main's status, or the script's own,
    which the system would cut to eight bits."""
    return _status_of(main, sys.argv[1:])


def _status_of(function, *arguments):
    try:
        return function(*arguments)
    except SystemExit as end:
        look = sys.modules.get("soma.look")
        if look and end.code in (None, 0):
            return look.status_of(0)
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
        if "soma.look" in sys.modules:
            sys.modules["soma.look"].fail(error)
        if at is None:
            raise
        sys.excepthook(type(error), error.with_traceback(at), at)
        return 1


if __name__ == "__main__":
    sys.exit(command())
