"""The recorder: what runs while a kernel's Python function runs.

It finds the user's line of each call, declares tensors and tiles when they are first used, holds
back the last instruction of a call that returns a tile (so that `x[...] = op()` writes x at once),
and keeps what belongs to a launch: programs of the grid, outputs, loops.
"""
import contextlib
import ctypes
import functools
import gc
import linecache
import os
import re
import threading

import numpy as np

from . import kernel as K
from . import lib as L
from . import notebook
from . import variables
from .errors import KernelError
from .native import _soma
from .targets import GENERATION
from .zeros import ZeroState, ended

_tile = L.tile
insn = None  # the module, which imports this one and puts itself here
_own = []


class _Outside:
    """Stands for the recorder outside of kernels."""

    __slots__ = ()
    thread = None

    def __getattr__(self, name):
        raise KernelError("an NKI call outside of a kernel: call it from a function under @nki.jit")


_ADDS = re.compile(r"(core \d: )?nc_matmul(_mx)? dst: ")  # a matmul reads what it adds to
recorders = _soma.recorders  # one: that of the kernel that is being built
recorders.append(_Outside())


def add_own(place):
    """Frames of this file, or of files in this folder, are not the user's."""
    end = "" if os.path.isfile(place) else os.sep
    _own.extend({place + end, os.path.abspath(place) + end})


add_own(os.path.dirname(__file__))
add_own(np.lib.mixins.__file__)  # operators of tensors on a device
add_own(threading.__file__)


def active():
    """The recorder of the kernel that is being built."""
    rec = recorders[0]
    return rec if rec.__class__ is Recorder else rec.count  # which says that none exists


def recording():
    """Whether this thread is building a kernel."""
    return recorders[0].thread == threading.get_ident()


@contextlib.contextmanager
def building(rec):
    """Calls of this thread go to rec. One thread at a time builds: nki._jit sees to that. Tiles
    live until the end, so that a collector would look at more and more of them for nothing."""
    rec.thread = threading.get_ident()
    before, collects = recorders[0], gc.isenabled()
    try:
        recorders[0] = rec  # not before `try`: a signal's handler may raise between the two
        gc.disable()
        yield
    finally:
        recorders[0] = before
        if collects:
            gc.enable()
        rec.frame = rec.kernel = None  # the frame keeps the user's values alive
        for s in rec.tiles + rec.tensors:
            s.zero = ended


def is_own(filename):
    return filename.startswith(tuple(_own))


def shown(filename):
    """A file's name for messages: relative if it is below the current folder; for a cell of a
    notebook the name that IPython gives it, such as In[3]."""
    cell = notebook.cell_of(filename)
    if cell:
        return cell
    near = os.path.relpath(filename) if os.path.isabs(filename) else filename
    return filename if near.startswith("..") else near


class Redo(BaseException):
    """The kernel has to be built again from the start: `hints` hold what was learned. This is not
    an Exception, so that a kernel's own `except Exception` lets it through."""


class Recorder(_soma.Recording):
    """One build of a kernel, or of what one core of two does; `peer` is core 0's, for core 1."""

    masked = None  # nki.isa puts it here

    # What each instruction uses is faster in slots.
    __slots__ = ("number_found", "found", "tiles", "__dict__")

    def __init__(self, machine, target, flags=0, hints=None, peer=None, cores=1, choices={}):
        self.core, self.cores, self.peer = int(peer is not None), cores, peer
        self.builder = K.Builder(machine, target, flags, 0, self.core, cores, **choices)
        self.target, self.gen = target, GENERATION[target]
        self.hints = hints if hints is not None else {}
        self.pending = None     # the last call's instructions, not emitted yet (pending.c)
        self.at = None          # the place of what is emitted, when it is not the call's
        self.moments = None     # what a debugger keeps of variables
        self.frame = None       # the user's frame of the call before
        self.sites = {}         # what tiles of one place have in common
        self.kernel = self.builder.address
        self.number_found, self.found = self.builder.number, self.builder.found
        self.own = {}           # numbers of files
        self.names, self.variables = {}, {}
        self.several = {}       # places of several statements: variables.of_line
        self.unnamed = set()    # places that make tiles without a variable
        self.used_names = {}
        self.tiles = []         # storages on the chip that instructions use
        self.tensors = []       # storages in HBM that instructions use, in order
        self.count = 0          # instructions emitted
        self.grid, self.program = (), ()
        self.programs, self.program_index = 1, 0  # of the launch; which of this core's runs
        self.schedule = ()
        self.shared, self.shared_at = [], 0
        self.inputs = []        # (path of an argument, storage), in order
        self.weights = None     # what the tensor engine has loaded
        self.loops, self.log = [], None  # the loops at run time that are open, what they record
        self.ordered = 0        # depth of no_reorder
        self.edges, self.named = [], {}
        self.old_style = self.prints = self.unknown = False
        self.ranks = 0          # of the largest group of a collective; 0: it has none
        self.identities, self.constants = {}, {}
        self.numbering = 0
        # Orders of tiles that are declared as zeros at once, as a `while` is first to sum in them.
        self.early = {key[1] for key in self.hints if key[0] == "early"}
        self.zeros = []         # ZeroStates whose zeros may still be needed
        self.keep, self.lost = [], {}  # lost: places of calls whose results nothing uses
        self.told = {}          # place: what else to warn of there
        self.older = False      # the kernel is one of neuronxcc.nki

    # ---- places ----

    def _file_of(self, code):
        """The number of the file of the user's code, -1 for other code."""
        name = code.co_filename
        if is_own(name) or name.startswith("<frozen"):
            return -1
        if name not in self.own:
            self.own[name] = self.builder.file(shown(name))
            self.names[self.own[name]] = name
        return self.own[name]

    def number_of(self, said):
        """The place, as where() gives it, of a hint: (text, file, line)."""
        _, name, line = said
        if name and name not in self.own:
            self.own[name] = self.builder.file(shown(name))
            self.names[self.own[name]] = name
        return self.own.get(name, 0), line

    def place_of(self, at):
        """(file's name for messages, line) of what where() returns."""
        return (shown(self.names[at[0]]), at[1]) if at[0] in self.names else (None, 0)

    def texts(self):
        """Source files that are not there for others, by the name that messages have: of cells of a
        notebook, and of what was compiled from a text."""
        texts = {shown(n): "".join(linecache.getlines(n)) for n in self.names.values()
                 if not os.path.isfile(shown(n))}
        return {name: text for name, text in texts.items() if text}

    def variable(self, place):
        """The name to which the statement at a place assigns, "" if none exists."""
        if place in self.several:
            return self._of_several(place)
        name = self.variables.get(place)
        if name is None:
            name = self.variables[place] = self._assigned(place)
        return name

    def caller(self, place):
        """The place of the call that assigns what a function returns from a place without a
        variable, such as `return nl.ndarray(...)`; the same place if none exists."""
        self.unnamed.add(place)
        frame = self.frame and self.frame.f_back  # None in a thread that no user's code has begun
        while frame is not None:
            file = self._file_of(frame.f_code)
            if file < 0:  # this package's: the kernel is left
                break
            if self.variable((file, frame.f_lineno)):
                return file, frame.f_lineno
            frame = frame.f_back
        return place

    def _assigned(self, place):
        file, line = place
        made = variables.of_line(linecache.getline(self.names.get(file, ""), line))
        if len(made) < 2:
            return made[0][1] if made else ""
        self.several[place] = made
        return self._of_several(place)

    def _of_several(self, place):
        """The same at a line of several statements: of that which runs."""
        frame = self.frame
        while frame is not None and (self._file_of(frame.f_code), frame.f_lineno) != place:
            frame = frame.f_back
        return variables.running(self.several[place], frame) if frame else ""

    # ---- emitting ----

    def _failed(self, status):
        """Raises the error of a record that the builder has refused."""
        self.builder.fail(status)

    def _logged(self, op, engine, flags, file, line, words):
        """A record in a loop at run time. True if it was compared with that of the round before."""
        log = self.log
        if log.at is not None:
            log.compare(self, op, (file, line), (engine, flags, words))
            return True
        log.entries.append((op, (file, line), (engine, flags, words), None))
        return False

    def step(self, what, place, words, make):
        """The result of make(), which changes the builder; in a round that is compared, that of the
        round before."""
        if not self.loops:
            return make()
        if self.log.at is not None:
            return self.log.compare(self, what, place, words)
        result = make()
        self.log.entries.append((what, place, words, result))
        return result

    def comparing(self):
        """Whether the round of a loop is recorded that the one before it is compared with."""
        return self.log is not None and self.log.at is not None

    def unwritten(self):
        """Called when tiles are read before they are written: the machine would read what was
        there. True if the kernel is to be built again with zeros in them, and a warning. A matmul
        that adds to what nothing has written is wrong; one that multiplies by it is not."""
        tiles, found = {s.handle: s for s in self.tiles}, False
        files = {shown(name): name for name in self.names.values()}
        for number, text, (file, line) in self.builder.unwritten():
            s = tiles.get(number)
            key = ("clear", s.order) if s is not None else None
            if key and s.place:
                key = ("clear", s.memory, s.dtype, s.shape, s.place)
            if key is None or key in self.hints or _ADDS.match(text):
                break
            self.hints[key] = text, files.get(file), line
            found = True
        return found

    def declared(self):
        """Where the kernel declares the tensor in HBM that finish() has refused, as it is read
        before it is written; "" if it is another error."""
        tensors = {s.handle: s for s in self.tensors}
        for number, _, _ in self.builder.unwritten():
            s = tensors.get(number)
            if s is not None and s.at[0] in self.names:
                return "%s:%d" % self.place_of(s.at)
        return ""

    def _keep_order(self):
        if self.ordered > 1:
            self.builder.order(self.count - 2, self.count - 1)
        self.ordered = 2

    def _dropped(self, storage):
        """Nothing uses what is held back for this storage."""
        self.lost[storage.at] = True

    def _placed(self, error):
        """Gives an error of what was held back its place."""
        error.at(*self.place_of(self.at))

    def _is_kept(self, storage):
        """Whether an earlier build has learned that the kernel reads what it lends."""
        return ("kept", storage.at) in self.hints

    def take(self, value, view):
        """Emits what is held back for `value` into `view`, which it may read."""
        self.pending = None
        self._into(value.pending, view)

    def fold(self, value, view):
        """Lets a held back matmul add to `view`; False if value is not one."""
        p = value.pending
        sums = view.dtype.name == "float32" or (self.gen > 3 and view.dtype.name == "bfloat16")
        if p is None or p is not self.pending or not p[3] or view.memory != L.PSUM or \
                not sums or value.shape[0] != view.shape[0] or value.free_size != view.free_size:
            return False
        if not self._lend(value):
            return False
        emit = _soma.adds(p[0]) if p[0].__class__ is bytes else functools.partial(p[0], add=True)
        self._into((emit,) + p[1:], view)
        return True

    # ---- storage ----

    def declare(self, s):
        """Gives storage its number in the builder."""
        if s.lent:  # its instructions went to another tile, but it is read
            self.hints[("kept", s.at)] = True
            raise Redo()
        if self.loops and s.order > self.loops[0].start[2]:
            self._declare_in_loop(s)
        else:
            self._declare(s, len(self.loops))

    def _declare_in_loop(self, s):
        """The same for what was made in a loop at run time. In a round that is compared it is what
        the round before has made."""
        outside = sum(s.order <= loop.start[2] for loop in self.loops)
        orders, what = self.log.orders, (s.memory, s.dtype, s.shape, s.place, s.at, outside)
        if not self.comparing():
            self._declare(s, outside)
            orders[s.order] = what, s
            return
        known = orders.get(s.order)
        if known is None or known[0] != what:
            self.log.compare(self, "a tile", s.at, what)
        s.handle = known[1].handle
        if s.memory:
            self.tiles.append(s)
        else:
            s.name, s.declared = known[1].name, known[1].declared
            self.tensors.append(s)

    def _declare(self, s, outside):
        if s.memory:
            site = s.site
            info = site.info
            if outside:
                info = self._tile_info(s, outside)
            elif info is None:
                info = site.info = self._tile_info(s)
            status = _tile(self.builder.handle, ctypes.byref(info), self.found)
            if status:
                self.builder.fail(status)
            s.handle = self.number_found.value
            self.tiles.append(s)
            if self.hints and ("clear", s.order) in self.hints and s.zero is None:
                s.zero = ZeroState(s, unset=self.number_of(self.hints["clear", s.order]))
            return
        if s.data is not None and s.role == L.ROLE_CONST:
            s.handle = self.builder.constant(s.dtype, s.shape or (1,), s.data)
            return
        shape = self.hints.get(("rows", s.order), s.declared or s.shape)
        s.declared = tuple(shape)
        if s.twin is None or not s.twin.handle:
            s.name = self.unique(s.name or "tensor")
        if len(s.declared) > 8:
            raise KernelError("tensor %s has %d dimensions: a tensor in HBM has at most 8"
                              % (s.name, len(s.declared)))
        s.handle = self.builder.tensor(s.name, s.dtype, s.declared or (1,), s.role)
        self.tensors.append(s)

    def _tile_info(self, s, outside=0):
        shape = s.shape if len(s.shape) <= 5 else (s.parts, s.free)
        try:
            return self.builder.tile_info(s.name or "t", s.memory, s.dtype, shape, s.place, s.at,
                                          outside)
        except KernelError as error:
            raise error.at(*self.place_of(s.at))

    def unique(self, name):
        name = re.sub(r"\W", "_", name) or "tensor"
        name = name if re.match(r"[A-Za-z_]", name) else "t_" + name
        n = self.used_names.get(name, 0) or L.lib.soma_is_word(name.encode())
        self.used_names[name] = n + 1
        return self.unique("%s_%d" % (name, n + 1)) if n else name

    def number(self, s):
        """The storage's place in the order of creation, by which a hint finds it again."""
        self.numbering += 1
        s.order = self.numbering
        if s.order in self.early:
            self.begin_with_zeros(s)
        return s

    def begin_with_zeros(self, s):
        """Declares a tile that a loop at run time uses first; its zeros are there before that."""
        self.declare(s)
        s.zero = ZeroState(s)

    def sums_in_while(self, s):
        """A matmul is about to add to a tile, or to write if nothing has written it. In a `while`
        that is first to use the tile it adds to zeros: the builder splits no while."""
        if s.handle == 0 and any(loop.bounds is None and s.order <= loop.start[2]
                                 for loop in self.loops):
            self.hints["early", s.order] = True
            raise Redo()

    def shares(self, s, twin):
        """Storage of core 1 that core 0 has too."""
        s.twin, s.role, s.name, s.declared = twin, twin.role, twin.name, twin.declared
        return self.number(s)

    def is_returned(self, s):
        """Whether an earlier build has learned that the kernel returns this tensor."""
        return ("returned", s.order) in self.hints

    def returns(self, s):
        """The kernel returns a tensor in HBM, which makes it an output."""
        if s.role == L.ROLE_TEMP:
            self.hints[("returned", s.order)] = True
            raise Redo()
        if s.handle == 0:
            self.declare(s)

    def assign(self, view, value):
        """`view = value` without an instruction to retarget: a copy, or a fill."""
        insn.assign(view, value)

    def assign_under(self, mask, view, value):
        """`view[mask] = value`; nki.isa gives what masks an instruction."""
        self.masked(mask, "an assignment", insn.assign, "each")(view, value)

    # ---- registers and loops ----

    def new_register(self):
        """The builder's number of a new register."""
        self.unknown = True
        return self.step("register", (0, 0), (), self.builder.register)

    def once(self, key, x, make):
        """The register that make() computes from x; for loops' own registers, which no round
        writes, the one of the call before in the same round."""
        if not self.loops or not all(r.frozen for r in x.terms):
            return make()
        for loop in self.loops:
            if key in loop.computed:
                return loop.computed[key]
        found = self.loops[-1].computed[key] = make()
        return found

    def fill_zeros(self):
        """Puts in the zeros of all tiles, before a loop at run time, which may have no rounds."""
        for z in self.zeros:
            if z.storage.zero is z:
                z.fill()
        self.zeros = [z for z in self.zeros if z.storage.zero is z and not z.filled]

    # ---- the end ----

    def close(self):
        """Ends the recording."""
        self.flush()
        if self.loops:
            from .loops import left
            raise left(self, self.loops[-1])
        if self.old_style:
            self.builder.may_spill()
        for name, producers in self.schedule:
            for producer in producers:
                for n in (name, producer):
                    if n not in self.named:
                        raise KernelError("with_schedule: no instruction has name=%r" % n)
                self.named[name].depends_on(self.named[producer])
        for earlier, later in self.edges:
            self.builder.order(earlier, later)
