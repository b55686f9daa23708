"""The errors that this package raises.

Every one says what is wrong, which rule it breaks and with which values; where the place in a
kernel is known the message begins with `file:line: `.
"""


class SomaError(RuntimeError):
    """An error of libsoma. `status` is the number of soma_status, `report` the full text,
    `findings` what the checks of a run had found before it."""

    findings = ()

    def __init__(self, text, status=0, report=None):
        super().__init__(text)
        self.status = status
        self.report = report or text


class KernelError(SomaError, ValueError):
    """A kernel breaks a rule of the machine or of the language. `file` and `line` are its place,
    `unwritten` (text, file, line) of each reading of what nothing has written, if it is that."""

    unwritten = ()

    def __init__(self, text, file=None, line=0, status=0, report=None):
        where = "%s:%d: " % (file, line) if file else ""
        super().__init__(where + text, status, report)
        self.file, self.line, self.text = file, line, text

    def at(self, file, line):
        """Gives the error its place if it has none yet."""
        if self.file is None and file:
            self.file, self.line = file, line
            self.args = ("%s:%d: %s" % (file, line, self.text),)
        return self

    def put(self, words, others):
        """Says others instead of these words, if others is not empty."""
        if others and words in self.text:
            place = self.args[0][:len(self.args[0]) - len(self.text)]
            self.text = self.text.replace(words, others)
            self.args = (place + self.text,)

    def of_core(self, core):
        """Says which of two cores the error is about, unless it does already."""
        if not self.text.startswith("core "):
            place = self.args[0][:len(self.args[0]) - len(self.text)]
            self.text = "core %d: %s" % (core, self.text)
            self.args = (place + self.text,)


class SomaFault(SomaError, IndexError):
    """A run that faulted, such as by an index out of bounds. Also an IndexError, as the vendor's
    simulator raises."""


class NotBuilt(KernelError, NotImplementedError):
    """Part of the API that is not built; the text says what to use instead."""


class DeadlockError(SomaError):
    """A run in which no engine can continue."""


class LibraryNotFound(ImportError):
    """libsoma.so was not found; the text has the places that were tried."""


def not_in_stand_in(module):
    """A __getattr__ for a module that stands in for the vendor's: it names what is not built."""
    def missing(name):
        raise AttributeError("%s.%s is not built: this is Soma's stand-in, not the real %s"
                             % (module, name, module.split(".")[0]))
    return missing


def outside_of_a_world(kernel, ranks):
    """The error of a kernel with collectives that is called as others are."""
    from . import processes
    if processes.peers():
        return KernelError(
            "%s() has collectives of %d ranks, and this call is of one rank alone: processes of "
            "soma-nki -n meet in kernel(...) and in kernel.run(...); for checks start them with "
            "soma-nki -n %d --check SCRIPT.py" % (kernel, ranks, processes.ranks()))
    return KernelError(
        "%s() has collectives of %d ranks: run it in a world, as soma.world(ranks=%d).run(%s, "
        "lambda rank: {...}) does, or start the script once a rank: soma-nki -n %d SCRIPT.py"
        % (kernel, ranks, ranks, kernel, ranks))
