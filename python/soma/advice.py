"""What would make a kernel faster, as the builder has tried it."""
import collections

from . import show

KINDS = ("engine", "load", "value", "tile", "unread", "rows", "order")  # by soma_kernel_advice_kind


class Advice(collections.namedtuple("Advice", "kind saved_us file line instruction name times "
                                    "engine text")):
    """One variant that is faster: saved_us by it alone; of a line of the kernel (None: of all of
    it), with the tile or tensor that its instructions write, and how many they are."""

    __slots__ = ()

    def __str__(self):
        said = "%12.3f us less: " % self.saved_us
        if self.instruction:
            place = "%s:%d" % (self.file, self.line) if self.file else "line %d" % self.line
            name = " (%s)" % self.name if self.name else ""
            said += "%s%s: %s: " % (place, name, self.instruction)
        return said + self.text


class Advices(list):
    """A list of Advice, what saves most first; shown as a line for each."""

    def __repr__(self):
        return "\n".join(map(str, self)) or "nothing that was tried saves time"

    def _repr_html_(self):
        return show.Text(repr(self))._repr_html_()
