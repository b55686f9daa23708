"""Files that appear whole or not at all, whatever writes them. It imports nothing of the package:
the neuron-profile command has it alone."""
import contextlib
import gzip
import os


def silent():
    """Whether another process writes what this one would; share.py has a better answer."""
    return False


def named(name, text):
    """What a file of that name holds for a text: it is compressed where the name ends in .gz."""
    data = text.encode()
    return gzip.compress(data, mtime=0) if os.fspath(name).endswith(".gz") else data


def write(path, data):
    """Writes a new file beside the one of that name, then gives it the name: when the disk is full
    the old one stays. A link keeps pointing at its file; a device is written as it is. Of an MPI
    job's processes, which have the same to write, one writes."""
    path = os.fspath(path)
    if silent():
        return
    try:
        _write(path, data)
    except OSError as error:  # with the name that was given
        raise type(error)(error.errno, error.strerror, path) from None


def _write(path, data):
    if path.startswith("/dev/") or os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as f:
            f.write(data)
        return
    path = os.path.realpath(path)
    new = "%s.%d.%s.tmp" % (path, os.getpid(), os.urandom(4).hex())
    try:
        with open(new, "xb") as f:
            f.write(data)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
