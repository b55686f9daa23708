"""The process of `soma-nki --sandbox` in which a script runs that is not trusted. It gets all that
it may have before it closes itself: what was asked for as numbers of open files, and all modules.
"""
import ctypes as C
import json
import linecache
import os
import resource
import struct
import sys
import traceback

import numpy as np

HOST, MEMORY = 2, 102

# System calls by libseccomp's names; any other fails with EPERM. Landlock says which files can be
# opened; without it there is no call that opens one.
_ALLOWED = (
    "brk mmap mmap2 mprotect munmap mremap madvise read readv pread64 write writev pwrite64 lseek "
    "_llseek ftruncate ftruncate64 close dup fstat fstat64 clock_gettime clock_gettime64 "
    "clock_getres gettimeofday time clock_nanosleep clock_nanosleep_time64 nanosleep select "
    "pselect6 poll ppoll futex futex_time64 sched_yield sched_getaffinity getrandom getpid getppid "
    "gettid getuid geteuid getgid getegid getcwd uname rt_sigaction rt_sigprocmask rt_sigreturn "
    "sigreturn sigaltstack restart_syscall exit exit_group set_robust_list rseq membarrier")
_OPENING = ("open openat access faccessat faccessat2 readlink readlinkat stat stat64 lstat lstat64 "
            "newfstatat fstatat64 statx getdents getdents64 fcntl fcntl64")
# What imports of libraries read beside sys.path.
_OF_LIBRARIES = ("/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom", "/dev/null",
                 "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
_EPERM = 1
_ALLOW, _KILL, _REFUSE = 0x7fff0000, 0x80000000, 0x00050000 | _EPERM
_BAD_ARCHITECTURE, _ALL_THREADS = 2, 4  # attributes of a filter
_LANDLOCK = 444  # landlock_create_ruleset; landlock_add_rule and landlock_restrict_self follow
_NO_NEW_PRIVILEGES = 38
_READ = 1 << 2 | 1 << 3  # of a file, of a folder


def _libc():
    lib = C.CDLL(None, use_errno=True)
    lib.syscall.restype = C.c_long
    return lib


def _failed(what):
    raise OSError(C.get_errno(), "%s: %s" % (what, os.strerror(C.get_errno())))


def close_files(folders):
    """From now on this process can read files below these folders only, and write none (Landlock).
    False if the system has no Landlock."""
    lib = _libc()
    # The flag 1 asks for the version.
    version = lib.syscall(_LANDLOCK, None, C.c_size_t(0), C.c_uint(1))
    if version < 1:
        return False
    # Versions 2, 3 and 5 have one more each: to move files between folders, to truncate, ioctl.
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)  # kinds of access that it knows
    # All that it knows is handled, and so forbidden but where a rule allows it.
    handled = struct.pack("Q", (1 << bits) - 1)
    ruleset = lib.syscall(_LANDLOCK, handled, C.c_size_t(len(handled)), C.c_uint(0))
    if ruleset < 0:
        _failed("Landlock")
    # A folder that does not exist cannot be opened either.
    for folder in sorted({os.path.realpath(f) for f in folders if os.path.exists(f)}):
        fd = os.open(folder, os.O_PATH)
        rule = struct.pack("=Qi", _READ if os.path.isdir(folder) else 1 << 2, fd)
        if lib.syscall(_LANDLOCK + 1, C.c_int(ruleset), C.c_int(1), rule, C.c_uint(0)):
            _failed("Landlock: %s" % folder)
        os.close(fd)
    # Without new privileges a process may restrict itself; no program that it starts gets out
    # of it.
    if lib.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or lib.syscall(_LANDLOCK + 2, C.c_int(ruleset),
                                                                C.c_uint(0)):
        _failed("Landlock")
    os.close(ruleset)
    return True


def close_calls(opening):
    """From now on the system calls of this process are those of the list, with those of opening if
    that is true."""
    seccomp = C.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = C.c_void_p
    filter_ = C.c_void_p(seccomp.seccomp_init(C.c_uint32(_REFUSE)))
    bad = not filter_
    # A call by the number of another architecture would mean something else.
    for attribute, value in ((_BAD_ARCHITECTURE, _KILL), (_ALL_THREADS, 1)):
        bad = bad or seccomp.seccomp_attr_set(filter_, attribute, C.c_uint32(value))
    for name in (_ALLOWED + (" " + _OPENING if opening else "")).split():
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        # fcntl may not send signals (F_SETOWN) or lock files
        for command in ((0, 1, 2, 3, 1030) if name.startswith("fcntl") else (None,)):
            # -1: the library knows no such call.
            if not bad and number >= -1 - 1000000 and number != -1:
                bad = seccomp.seccomp_rule_add_array(
                    filter_, C.c_uint32(_ALLOW), number, 0 if command is None else 1,
                    None if command is None else _argument_is(1, command))
    bad = bad or seccomp.seccomp_load(filter_)
    if bad:
        raise OSError("the filter of system calls cannot be loaded (%d)" % bad)


def _argument_is(number, value):
    """libseccomp's scmp_arg_cmp: this argument of a call equals value."""
    return C.create_string_buffer(struct.pack("IIQQ", number, 4, value, 0), 24)


def _limit(job):
    # What Python and the modules have taken counts in addition.
    with open("/proc/self/statm") as f:
        size = int(f.read().split()[0]) * resource.getpagesize()
    bounds = [(resource.RLIMIT_AS, size + job["memory"]), (resource.RLIMIT_CORE, 0),
              (resource.RLIMIT_FSIZE, job["memory"])]
    for what, most in bounds:
        resource.setrlimit(what, (most, most))
    if job["cpu_seconds"]:
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        # Whole seconds, rounded up; a second later the kernel ends it for good.
        most = int(used + job["cpu_seconds"] + 0.999)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))


def _warm(look):
    """What is loaded or opened when it is first needed."""
    # Afterwards no file opens: all that a script may import or first use is loaded here.
    import neuronxcc.nki.isa  # noqa: F401
    import neuronxcc.nki.language  # noqa: F401
    import nki
    import nki.isa  # noqa: F401
    import nki.language as nl
    for name in ("collections.abc", "dataclasses", "functools", "itertools", "math", "random",
                 "re", "time", "typing", "numpy.random", "numpy.linalg", "numpy.fft", "unittest",
                 "nki.typing", "nki.collectives", "nki.compiler", "nki.experimental",
                 "soma.sweep", "warnings"):
        __import__(name)

    @nki.jit
    def first(x):
        nl.store(x, nl.load(x) + 1)
    # These two calls are not the script's.
    calls = list(look.state().calls)
    first(np.zeros((1, 2), np.float32))
    first.check(np.zeros((1, 2), np.float32))
    look.state().calls[:] = calls


def _place(error, script):
    """(file, line) of the last line of the script that an error came through; (None, 0)."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno or 0
    found = getattr(error, "file", None), getattr(error, "line", 0)
    for frame in traceback.extract_tb(error.__traceback__):
        # The error of a kernel has its own place.
        if frame.filename == script and not getattr(error, "file", None):
            found = script, frame.lineno
    return found


def _save(outputs, files):
    for name in outputs:
        if name not in files:
            raise ValueError("soma.outputs[%r]: no --out or --expect names it" % (name,))
    for name, fd in files.items():
        if name not in outputs:
            raise ValueError("the script has not set soma.outputs[%r]" % name)
        value = outputs[name]
        if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
            value = value.numpy()
        value = np.asarray(value)
        # ml_dtypes' and the like: as float32, which has all their values.
        if value.dtype.kind not in "biufc":  # types that NumPy's files have not
            value = value.astype(np.float32)
        with open(fd, "wb", closefd=False) as f:
            np.save(f, value, allow_pickle=False)


def _run(job, ending):
    """Runs the script; what is told of its end."""
    import soma
    code = compile(job["text"], job["script"], "exec")
    names = {"__name__": "__main__", "__file__": job["script"], "__builtins__": __builtins__}
    sys.argv = [job["script"]] + job["arguments"]
    try:
        exec(code, names)
    except SystemExit as end:
        # sys.exit("text") is an error, as for Python.
        if isinstance(end.code, str):
            raise ValueError("sys.exit(%r)" % end.code) from None
        status = 0 if end.code is None else int(end.code)
        # 2 and numbers from 100 on are the sandbox's verdicts.
        if not 0 <= status <= 99 or status == 2:
            raise ValueError("sys.exit(%d): a script's own exit status is 0 to 99, but not 2"
                             % status) from None
        ending["status"] = status
        if status:
            ending["message"] = "the script called sys.exit(%d)" % status
            return
    _save(soma.outputs, job["outputs"])


def _prepare(job):
    """Loads all that the script may have, and closes this process."""
    import soma
    from . import look
    _warm(look)
    soma.inputs = {}
    for name, fd in job["inputs"].items():
        # By number: a path may no longer be the same file.
        with open(fd, "rb") as f:
            soma.inputs[name] = np.load(f, allow_pickle=False)
    soma.outputs = {}
    sys.path += job["imports"]
    look.state().options["sandbox"] = True  # so that calls are noted
    text = job["text"]
    # So that tracebacks show the script's lines, though its file cannot be opened.
    linecache.cache[job["script"]] = (len(text), None, text.splitlines(True), job["script"])
    _limit(job)
    if job["filter"]:
        # Files first: with the filter, Landlock's own calls would fail.
        folders = sys.path + list(_OF_LIBRARIES)
        close_calls(close_files(folders))
    return look


def main(number):
    """Runs the job that the file of this number describes."""
    with open(number, encoding="utf-8") as f:
        job = json.load(f)
    ending = {"status": 0, "message": None, "file": None, "line": 0}
    # Opened before the script could close or use its number.
    tell = os.fdopen(job["ending"], "w", encoding="utf-8")
    try:
        look = _prepare(job)
    except Exception as error:  # the script has not begun
        tell.write(json.dumps(dict(ending, status=HOST, calls=[], message=str(error))))
        tell.close()
        return HOST
    try:
        _run(job, ending)
    except MemoryError:
        ending.update(status=MEMORY, message="the limit of memory is reached: see --max-memory")
    # SystemExit is handled in _run; all others end the script.
    except BaseException as error:
        file, line = _place(error, job["script"])
        text = str(error)
        if not getattr(error, "file", None):
            text = "%s: %s" % (type(error).__name__, text)
        if line and not text.startswith("%s:" % file):
            text = "%s:%d: %s" % (file, line, text)
        if isinstance(error, (FileNotFoundError, PermissionError)) and error.filename:
            text += " (a sandbox's script gets files as soma.inputs, by --in)"
        at = error.__traceback__
        # Its own frames alone.
        while at and at.tb_frame.f_code.co_filename != job["script"]:
            at = at.tb_next
        traceback.print_exception(type(error), error, at)
        ending.update(status=1, message=text, file=file, line=line)
    sys.stdout.flush()
    state = look.state()
    ending.update(calls=state.calls, findings=state.findings)
    tell.write(json.dumps(ending))
    tell.close()
    # Nothing of the script's (threads, exit functions) runs after it.
    os._exit(0)
