"""What a kernel's Python functions remember from one round of a loop at run time to the next: the
variables of its frames that are read later, and what these reach, as values that can be compared.
"""
import argparse
import array
import collections
import dis
import enum
import functools
import gc
import operator
import sys
import types
import warnings
import zlib

import numpy as np

from . import record
from .blocks import Blocks
from .index import DynSlice, Index
from .masks import Mask
from .native import _soma
from .register import Register, RegisterValue
from .tensor import Tensor

# ---- Variables that are read later ----

_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
         "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
_JUMPS = set(dis.hasjrel) | set(dis.hasjabs)
_FREE = ("DEREF", "CLOSURE", "CLASSDEREF")


def _effect(i):
    """(names that an instruction reads, names that it writes), of a function's own variables."""
    name = i.opname
    # Others, such as a method's call, touch no variable of the function.
    if "FAST" not in name and not name.endswith(_FREE):
        return (), ()
    # From Python 3.13 one instruction loads or stores two.
    names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
    if name.startswith("LOAD_FAST_AND_CLEAR"):
        return names, names
    if name.startswith("STORE_FAST_LOAD"):
        return names[1:], names[:1]
    if name.startswith("LOAD"):
        return names, ()
    return ((), names) if name.startswith(("STORE", "DELETE")) else ((), ())


def _handlers(code):
    """[(start, end, handler)] of the exceptions that a code handles."""
    # Python before 3.11 keeps them as instructions, whose jumps are seen.
    parse = getattr(dis, "_parse_exception_table", None)
    return [(e.start, e.end, e.target) for e in parse(code)] if parse else []


@functools.lru_cache(4096)
def _code(code):
    """(instructions, their numbers by offset, names that are read after each)."""
    found = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    at = {i.offset: n for n, i in enumerate(found)}
    following = []
    for n, i in enumerate(found):
        # What leads on from each: the next instruction unless it ends, where it jumps, and
        # where an exception in it goes.
        after = [] if i.opname in _ENDS or n + 1 == len(found) else [n + 1]
        if i.opcode in _JUMPS:
            after.append(at[i.argval])
        following.append(after)
    for start, end, handler in _handlers(code):
        for n, i in enumerate(found):
            if start <= i.offset < end:
                following[n].append(at[handler])
    effects = [_effect(i) for i in found]
    before, after = [frozenset()] * len(found), [frozenset()] * len(found)
    # What is read later at the end of a code is nothing; a loop may bring more to its
    # beginning, so until nothing changes.
    changed = True
    while changed:
        changed = False
        # Backwards, as reads come before what they read was written: few rounds are needed.
        for n in range(len(found) - 1, -1, -1):
            out = frozenset().union(*[before[f] for f in following[n]])
            reads, writes = effects[n]
            into = out.difference(writes).union(reads)
            if into != before[n] or out != after[n]:
                before[n], after[n], changed = into, out, True
    return found, at, before, after


def _current(frame):
    """(instructions of a frame's code, number of the one it is at)."""
    found, at, _, _ = _code(frame.f_code)
    offset = frame.f_lasti
    # An offset between instructions is one of a cache of the instruction before it.
    while offset not in at and offset > 0:
        offset -= 2
    return found, at[offset]


def read_later(frame):
    """The variables that a frame reads after what it is at."""
    return _code(frame.f_code)[3][_current(frame)[1]]


def read_after_loop(frame):
    """The variables that a frame reads after the loop whose next round it asks for."""
    found, n = _current(frame)
    _, at, before, after = _code(frame.f_code)
    # What stands between the call of __bool__ and the jump that takes its result.
    while found[n].opname in ("TO_BOOL", "EXTENDED_ARG", "NOT_TAKEN") and n + 1 < len(found):
        n += 1
    i = found[n]
    # Out of the loop: to the end of a `for`, or where a false test leads.
    if i.opname == "FOR_ITER" or "IF_FALSE" in i.opname:
        return before[at[i.argval]]
    return before[n + 1] if "IF_TRUE" in i.opname else after[n]


def has_break(frame):
    """Whether a `while` whose test a frame is at can be left from within its body: by a jump past
    its end, or because the body's own end leads there."""
    found, n = _current(frame)
    # The jump that the test itself makes, which leads to its end.
    while n + 1 < len(found) and "IF_FALSE" not in found[n].opname:
        n += 1
    top, end = found[n + 1].offset, found[n].argval
    to = [i.argval for i in found[n + 1:] if i.offset < end and i.opcode in _JUMPS]
    return any(target >= end for target in to) or not any(target <= top for target in to)


def in_for(frame):
    """Whether a frame begins a plain `for` over what it asks for an iterator."""
    found, n = _current(frame)
    names = [i.opname for i in found[n:n + 4] if i.opname not in ("EXTENDED_ARG", "NOP")]
    return names[:2] == ["GET_ITER", "FOR_ITER"]


def in_iterator(frame):
    """Whether a frame is that of a generator which an iterator such as enumerate() goes over: its
    count is in no variable."""
    if not frame.f_code.co_flags & 32:  # of a generator
        return False
    # No frame names its iterators; the collector knows who refers to the generator.
    for x in gc.get_objects():
        if isinstance(x, types.GeneratorType) and x.gi_frame is frame:
            around = gc.get_referrers(x)
            # enumerate(zip(...)) has it in a tuple.
            around += [r for t in around if isinstance(t, tuple) for r in gc.get_referrers(t)]
            return any(hasattr(r, "__next__") for r in around)
    return False


# ---- Values ----

_ATOMS = (type(None), bool, int, float, complex, str, bytes, range, np.generic, type(...))
MOST = 4000  # values of one state; what lies beyond is not compared


@functools.lru_cache(None)
def _is_users(module):
    """Whether what a module defines is looked into: it is not this package's, not Python's, and not
    of a library without kernels."""
    file = getattr(sys.modules.get(module), "__file__", None)
    # What the user runs as a script has no other module.
    if module == "__main__" or module.split(".")[0] in _LIBRARIES or not file:
        return module == "__main__"
    return not record.is_own(file) and (not file.startswith(_PYTHON) or "-packages" in file)


_LIBRARIES = {"numpy", "torch", "torch_xla", "ml_dtypes", "jax", "jaxlib", "scipy", "pytest",
              "_pytest"}
_PYTHON = enum.__file__.rsplit("/", 1)[0]


_VALUES = _ATOMS + (list, dict, set, np.ndarray)
_OPEN = types.SimpleNamespace, argparse.Namespace


class _State:
    """The values that roots reach: {path: what can be compared}."""

    def __init__(self):
        self.found, self.seen, self.keep = {}, {}, []

    def visit(self, path, x):
        """Notes x, which is reached by a path."""
        if len(self.found) >= MOST:
            return
        if isinstance(x, _ATOMS):
            self.found[path] = type(x).__name__, repr(x)
            return
        # A value that is reached twice is compared where it was reached first.
        known = self.seen.get(id(x))
        if known is not None:
            self.found[path] = "same", known
            return
        self.seen[id(x)] = path
        self.keep.append(x)  # so that no other value gets its id
        # Before what is in it: a value may be in itself.
        self.found[path] = type(x).__name__,
        for kind, note in _KINDS:
            if isinstance(x, kind):
                note(self, path, x)
                return
        self.plain(path, x)

    def put(self, path, *what):
        self.found[path] = what

    def items(self, path, x):
        self.put(path, type(x).__name__, len(x))
        for i, value in enumerate(x):
            self.visit("%s[%d]" % (path, i), value)

    def mapping(self, path, x):
        self.put(path, type(x).__name__, len(x))
        for i, (key, value) in enumerate(list(x.items())):
            if isinstance(key, _ATOMS):
                self.visit("%s[%r]" % (path, key), value)
            # Their order is that of the dict, since they may have no text.
            else:
                self.visit("key %d of %s" % (i, path), key)
                self.visit("value %d of %s" % (i, path), value)

    def group(self, path, x):
        # Sets have no order that would be the same twice.
        self.put(path, "set", len(x), *sorted(repr(v) if isinstance(v, _ATOMS) else
                                              type(v).__name__ for v in x))

    def tensor(self, path, x):
        s = x.storage
        self.put(path, "tile", s.order or s.handle, x.dtype.name, x.shape, x.steps, x.part, x.off,
                 tuple((d[0],) + tuple(self.part(v) for v in d[1:]) for d in x.dyn))

    @staticmethod
    def part(x):
        return x.storage.order if isinstance(x, Tensor) else x.handle if isinstance(
            x, Register) else x

    def register(self, path, x):
        self.put(path, "register", x.state() if isinstance(x, Register) else (
            x.const, tuple((r.state(), k) for r, k in x.terms.items())))

    def index(self, path, x):
        self.put(path, "index", x.const, tuple(x.coef), tuple(x.size))

    def mask(self, path, x):
        self.items(path, x.terms)

    def data(self, path, x):
        self.put(path, type(x).__name__, bytes(x))

    def array(self, path, x):
        # 1 MB: of what is larger shape and type alone.
        data = x.tobytes() if x.nbytes < 1 << 20 and x.dtype != object else b""
        self.put(path, "array", x.shape, str(x.dtype), zlib.crc32(data))

    def function(self, path, x):
        code = x.__code__
        self.put(path, "function", code.co_name, code.co_firstlineno)
        # A library's functions keep nothing of the kernel's.
        if not _is_users(x.__module__):
            return
        for name, cell in zip(code.co_freevars, x.__closure__ or ()):
            try:
                self.visit(name, cell.cell_contents)
            except ValueError:  # not assigned yet
                pass
        for name, value in x.__dict__.items():
            self.visit("%s.%s" % (path, name), value)
        for i, value in enumerate(x.__defaults__ or ()):
            self.visit("default %d of %s" % (i, path), value)
        self.globals(x.__globals__, code)

    def globals(self, names, code):
        """The global variables that a code names."""
        for name in code.co_names:
            # By dict and name: the value may be found by other ways too.
            if name in names and (id(names), name) not in self.seen:
                self.seen[id(names), name] = name
                self.visit(name, names[name])

    def method(self, path, x):
        self.visit(path + ".__self__", x.__self__)
        self.visit(path + ".__func__", x.__func__)

    def partial(self, path, x):
        for name in ("func", "args", "keywords"):
            self.visit("%s.%s" % (path, name), getattr(x, name))

    def generator(self, path, x):
        frame = x.gi_frame
        # Where it is, and what its variables hold.
        self.put(path, "generator", x.__name__, frame and frame.f_lasti)
        for name, value in frame.f_locals.items() if frame else ():
            self.visit("%s of %s" % (name, path), value)

    def same(self, path, x):
        self.put(path, type(x).__name__, id(x))

    def iterator(self, path, x):
        """An iterator of Python's: where it is."""
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns that it will go.
                warnings.simplefilter("ignore")
                parts = x.__reduce__()[1:]  # tells it without moving it
        except (TypeError, ValueError, AttributeError):
            parts = operator.length_hint(x, -1),
        self.items(path, [p for p in parts if p is not None])

    def plain(self, path, x):
        """An object of a class of the user's, an iterator, or another object."""
        module = getattr(type(x), "__module__", "") or ""
        if hasattr(x, "__next__") and not _is_users(module):
            self.iterator(path, x)
        elif hasattr(x, "depends_on"):  # the handle of a call
            self.put(path, "call", x.first, x.last)
        # What is inside of an object of a library is not for kernels to change; its identity
        # may.
        elif not _is_users(module) and not isinstance(x, _OPEN):
            self.same(path, x)
        else:
            for name, value in list(getattr(x, "__dict__", {}).items()):
                self.visit("%s.%s" % (path, name), value)
            for kind in type(x).__mro__:
                slots = kind.__dict__.get("__slots__", ())
                for name in (slots,) if isinstance(slots, str) else slots:
                    if name != "__dict__" and hasattr(x, name):
                        self.visit("%s.%s" % (path, name), getattr(x, name))


def _class(state, path, x):
    if _is_users(x.__module__):
        # Its methods change with the source alone.
        for name, value in list(vars(x).items()):
            if not name.startswith("__") and not callable(value):
                state.visit("%s.%s" % (path, name), value)


def _module(state, path, x):
    if _is_users(x.__name__):
        # A module's functions are looked into where they are called.
        for name, value in list(vars(x).items()):
            if not name.startswith("__") and isinstance(value, _VALUES):
                state.visit("%s.%s" % (path, name), value)


def _blocks(state, path, x):
    state.mapping(path, x.tiles)


def _slice(state, path, x):
    for name in ("start", "stop", "step", "size"):
        if hasattr(x, name):
            state.visit("%s.%s" % (path, name), getattr(x, name))


_KINDS = (
    (Tensor, _State.tensor), (RegisterValue, _State.register), (Index, _State.index),
    (Mask, _State.mask), (Blocks, _blocks), ((DynSlice, slice), _slice),
    ((list, tuple, collections.deque), _State.items), (dict, _State.mapping),
    ((set, frozenset), _State.group), (np.ndarray, _State.array),
    ((bytearray, memoryview, array.array), _State.data),
    (types.FunctionType, _State.function), (types.MethodType, _State.method),
    (functools.partial, _State.partial), (types.GeneratorType, _State.generator),
    (type, _class), (types.ModuleType, _module),
    ((types.BuiltinFunctionType, _soma.Call, enum.Enum), _State.same))


def _frames(frame):
    """The frames of a kernel, from the one that is at work up to the kernel's own."""
    # The frame that calls the kernel's function is soma.launch's.
    while frame is not None and frame.f_globals.get("__name__") != "soma.launch":
        if not record.is_own(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def calls(frame):
    """The places of the calls that a kernel is in."""
    return tuple((id(f.f_code), f.f_lineno) for f in _frames(frame))


def state(frame, roots=()):
    """What the frames of a kernel remember, {path: value}: from `frame` outwards, and `roots`,
    [(name, value)]."""
    found = _State()
    for name, value in roots:
        found.visit(name, value)
    first = True
    for f in _frames(frame):
        later, values = read_later(f), f.f_locals
        # A name says in which function it is, but for the innermost.
        where = "" if first else " of %s()" % f.f_code.co_name
        for name in sorted(later):
            if name in values:
                found.visit(name + where, values[name])
        found.globals(f.f_globals, f.f_code)
        first = False
    return found.found


# In the order in which the later state has met them.
def differences(a, b):
    """The paths whose values differ between two states, those that only one has among them."""
    return [p for p in list(b) + [p for p in a if p not in b] if a.get(p) != b.get(p)]
