"""What a kernel's functions read from outside of its arguments, by which a kept program is known to
be the one that Python would record again."""
import array
import dis
import enum
import functools
import logging
import os
import sys
import sysconfig
import types

import numpy as np

from . import arrays, record
from .dtypes import DType

# A call looks at all of it: what is larger is no cheaper than recording the kernel anew.
MOST_PARTS = 5000          # values in containers and objects
MOST_BYTES = 1 << 20       # of an array

_PLAIN = (int, float, complex, str, bytes, type(None), enum.Enum, np.generic, np.dtype, DType)
_LIBRARIES = {"numpy", "torch", "jax", "scipy", "ml_dtypes", "builtins"}
_FOLDERS = tuple(os.path.join(p, "") for p in {sysconfig.get_path("stdlib"),
                                               sysconfig.get_path("platstdlib")} if p)
_LOADS = {dis.opmap[n] for n in ("LOAD_GLOBAL", "LOAD_NAME") if n in dis.opmap}
_LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]
_SHIFT = 1 if sys.version_info >= (3, 11) else 0  # a bit of LOAD_GLOBAL says what it pushes
_DESCRIPTORS = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__",
                "__firstlineno__", "__static_attributes__", "__dataclass_fields__",
                "__dataclass_params__"}
_absent = object()


def _is_mark(x):
    """Whether an object of a library has no fields, and no room for any: dataclasses.MISSING."""
    # 16 bytes: the two pointers that every object of a class may have.
    return getattr(x, "__dict__", None) == {} and not hasattr(type(x), "__slots__") and \
        type(x).__basicsize__ <= object.__basicsize__ + 16


class _Unknown(Exception):
    """A value whose changes cannot be seen cheaply."""


def _codes(code):
    """A code and those of the functions inside it."""
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _codes(c)


def _globals_of(code):
    """The names that a code looks up in its module."""
    found, high = set(), 0
    text = code.co_code
    # Instructions are two bytes; EXTENDED_ARG gives the next one's higher bits.
    for op, low in zip(text[::2], text[1::2]):
        argument = high | low
        high = argument << 8 if op == dis.EXTENDED_ARG else 0
        if op in _LOADS:
            found.add(code.co_names[argument >> (_SHIFT if op == _LOAD_GLOBAL else 0)])
    return found


@functools.lru_cache(1024)
def _is_library(name):
    """Whether the module of that name is Python's, this package's or a library's that kernels use
    but do not change."""
    if name.split(".")[0] in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        # Without a file it may be the interpreter's own, or made at run time.
        return name in sys.builtin_module_names
    return record.is_own(file) or (file.startswith(_FOLDERS) and "-packages" not in file)


@functools.lru_cache(1024)
def _is_ours(kind):
    """Whether a class is this package's."""
    return record.is_own(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


def _plain(x):
    """Whether a value never changes: numbers, strings, members of enumerations, tuples of them."""
    # A tuple is plain if all in it is.
    return all(map(_plain, x)) if type(x) is tuple else isinstance(x, _PLAIN)


def _same(a, b):
    return a is b or (type(a) is type(b) and _plain(a) and _exact(a) == _exact(b))


def _exact(x):
    """A plain value so that equal means the same to a kernel: True is not 1, -0.0 not 0.0."""
    kind = x.__class__
    # bool is no int here, by class.
    if kind is str or kind is int:
        return x
    if kind is tuple:
        return tuple(map(_exact, x))
    if kind is float:
        # As text, 0.0, -0.0 and NaN are each equal to themselves alone.
        return (kind, x) if x and x == x else (kind, str(x))
    return (kind, x.tobytes()) if isinstance(x, np.generic) else (kind, x)


def _by_value(x):
    """Whether an object of a library is one that cannot change: it is hashed by what it is."""
    kind = type(x)
    return kind.__hash__ not in (None, object.__hash__) and not hasattr(x, "__array__")


def _contents(function):
    """(cell, value) of the variables of the functions around one, of those that are set."""
    for cell in function.__closure__ or ():
        try:
            yield cell, cell.cell_contents
        except ValueError:
            pass


class Around:
    """What a kernel's functions, and the functions that they call, can read by name: of their
    modules, of the functions around them, and in the dicts, lists, arrays, objects and classes that
    they find there. A program is used again while it is all the same. Not seen: files, clocks, the
    state of libraries."""

    def __init__(self, function, arguments=()):
        self.names, self.cells, self.codes, self.absent, self.values = [], [], [], [], []
        self.sizes = []        # of the classes
        self.kept = True       # whether all of it can be compared
        self.seen, self.alive = set(), []
        try:
            self._function(function)
            for value in arguments:  # which have a key of their own; what they bring has none
                self._argument(value)
        # Too much, or something without end: such a kernel is recorded each time.
        except (_Unknown, RecursionError):
            self.kept = False
        del self.seen

    def holds(self):
        """Whether it is all what it was."""
        if not self.kept:
            return False
        try:  # the cheap comparisons first
            return all(f.__code__ is code and f.__defaults__ is defaults
                       and f.__kwdefaults__ is others
                       for f, code, defaults, others in self.codes) and \
                all(_same(space.get(name, _absent), value)
                    for space, name, value in self.names) and \
                all(_same(cell.cell_contents, value) for cell, value in self.cells) and \
                all(space.keys().isdisjoint(names) for space, names in self.absent) and \
                all(len(space) == n for space, n in self.sizes) and \
                all(_Print().of(value) == known for value, known in self.values)
        except (_Unknown, ValueError, RuntimeError):  # a cell that is empty now; another thread
            return False

    def _argument(self, x):
        if isinstance(x, (list, tuple)):
            for v in x:
                self._argument(v)
        elif isinstance(x, dict):
            for v in x.values():
                self._argument(v)
        elif isinstance(x, (types.FunctionType, type)) or callable(x):
            self._see(x)
        elif hasattr(x, "__dict__") and not hasattr(x, "__array__") and not _plain(x) and \
                not _is_library(type(x).__module__):
            self._see(type(x))
            for v in vars(x).values():
                self._argument(v)

    def _function(self, function):
        """A function: of the user's its code, and what that reads."""
        if _is_ours(type(function)):  # a Kernel
            function = getattr(function, "function", None)
        if not isinstance(function, types.FunctionType):
            if function is not None:
                self._see(function)
            return
        # Recursion, or this package's own.
        if id(function) in self.seen or record.is_own(function.__code__.co_filename):
            return
        self._once(function)
        cells = list(_contents(function))
        # A decorator of a library has the user's function in a cell.
        if _is_library(function.__globals__.get("__name__") or ""):  # such as a wrapper
            for _, value in cells:
                if isinstance(value, types.FunctionType):
                    self._function(value)
            return
        self.codes.append((function, function.__code__, function.__defaults__,
                           function.__kwdefaults__))
        # Attributes of a function are used to hold state.
        for value in (function.__defaults__, function.__kwdefaults__, function.__dict__):
            if value:
                self._value(value)
        for cell, value in cells:
            self.cells.append((cell, value))
            self._see(value)
        self._names_of(function)

    def _names_of(self, function):
        """What the code of a function looks up in its module."""
        space, missing = function.__globals__, set()
        for code in _codes(function.__code__):
            # Names of attributes too: of a module it reads those.
            wanted = set(code.co_names)
            for name in sorted(_globals_of(code)):
                if name in space:
                    self._named(space, name, wanted)
                else:
                    missing.add(name)
        if missing:
            self.absent.append((space, frozenset(missing)))

    def _named(self, space, name, wanted):
        """What a name of a module stands for; wanted: the names that the code uses."""
        value = space[name]
        self.names.append((space, name, value))
        if isinstance(value, types.ModuleType):
            self._module(value, wanted)
        else:
            self._see(value)

    def _module(self, module, wanted):
        # The dict behind it, which is compared like any other.
        if module is os and wanted & {"environ", "getenv"}:
            self._value(os.environ._data)
        if _is_library(module.__name__):
            return
        space = vars(module)
        for name in sorted(wanted & space.keys()):
            # Only what the code may name: a module may have much more.
            if (id(space), name) not in self.seen:
                self.seen.add((id(space), name))
                self._named(space, name, wanted)

    def _once(self, x):
        self.seen.add(id(x))
        self.alive.append(x)

    def _see(self, value):
        """What can change in a value that is known by its identity."""
        # Once is enough, and cycles end.
        if _plain(value) or id(value) in self.seen:
            return
        if isinstance(value, types.ModuleType):
            return
        if isinstance(value, types.FunctionType) or _is_ours(type(value)):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        else:
            self._value(value)

    def _class(self, cls):
        if id(cls) in self.seen or _is_library(cls.__module__):
            return
        self._once(cls)
        for base in cls.__bases__:
            self._class(base)
        self.sizes.append((vars(cls), len(vars(cls))))
        for name, value in vars(cls).items():
            # Python's own parts of each class.
            if name in _DESCRIPTORS or isinstance(value, types.MemberDescriptorType) or \
                    (name.startswith("_") and isinstance(cls, enum.EnumMeta)):
                continue
            self.names.append((vars(cls), name, value))
            for part in _parts_of(value):
                self._see(part)

    def _value(self, value):
        """A value that can change inside: what it looks like now."""
        if id(value) in self.seen:
            return
        self._once(value)
        known = _Print(self)
        self.values.append((value, known.of(value)))


def _parts_of(value):
    """The functions of what stands in a class."""
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return tuple(f for f in (value.fget, value.fset) if f)
    return (value,)


class _Print:
    """What a value looks like, as tuples that are equal while it is the same. The first one tells
    `around` of the functions and classes that it meets."""

    def __init__(self, around=None):
        self.around, self.parts, self.met, self.made = around, 0, {}, []

    def of(self, x):
        kind = x.__class__
        if kind is str or kind is int:
            return x
        if isinstance(x, _PLAIN):
            return _exact(x)
        self.parts += 1
        # Compared at each call: this would take longer than recording.
        if self.parts > MOST_PARTS:
            raise _Unknown
        # A cycle, or a value in two places: by the order in which they were met.
        if id(x) in self.met:
            return ("again", self.met[id(x)])
        self.met[id(x)] = len(self.met)
        inside = _inside(x)
        self.made.append(inside)  # so that no other object gets the number of one in it
        if inside is None:  # known by its identity
            if self.around:
                self.around.alive.append(x)
                if isinstance(x, (type, types.FunctionType)) or _is_ours(kind):
                    self.around._see(x)
            return ("is", id(x))
        if self.around and isinstance(getattr(x, "__dict__", None), dict):
            self.around._see(kind)
        return (kind, inside if kind in _BYTES else self._all(inside))

    def _all(self, parts):
        """Of a dict's keys and values, or of a sequence."""
        of = self.of
        self.parts += len(parts)
        if self.parts > MOST_PARTS:
            raise _Unknown
        if parts.__class__ is dict:
            return tuple([(of(k), of(v)) for k, v in parts.items()])
        return tuple([of(v) for v in parts])


_BYTES = {np.ndarray, arrays.RawArray, bytearray, array.array}


def _inside(x):
    """What there is to compare in a value: bytes, a dict, or a sequence. None: its identity."""
    kind = type(x)
    if kind is dict or kind is list or kind is tuple:
        return x
    if kind is np.ndarray or kind is arrays.RawArray:
        # Objects in an array would be compared by address.
        if x.nbytes > MOST_BYTES or x.dtype.hasobject:
            raise _Unknown
        return x.shape, x.dtype, x.strides, x.tobytes()
    if kind is bytearray or kind is array.array:
        return bytes(x)
    fields = _fields(x)
    if isinstance(x, dict):
        # A subclass of dict may have fields beside its items.
        return [dict(x), fields] if fields else dict(x)
    if isinstance(x, (list, tuple)) or kind.__name__ == "deque":
        return list(x) + [fields] if fields else list(x)
    if isinstance(x, (set, frozenset)):
        # The order of a set is that of hashes, which may differ.
        return sorted(x, key=lambda v: (type(v).__name__, repr(v)))
    if isinstance(x, (slice, types.MethodType, types.MappingProxyType)) or \
            kind.__name__ == "partial":
        return _inside_of_library(x)
    if isinstance(x, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
                      np.ufunc, logging.Logger)) or _is_ours(kind):
        return None
    if hasattr(x, "__wrapped__"):  # of functools.lru_cache
        return [x.__wrapped__]
    if not _is_library(kind.__module__) or kind in (types.SimpleNamespace,) or \
            kind.__module__ == "argparse":
        return fields
    if _by_value(x) or _is_mark(x) or kind.__module__ == "builtins" and kind.__name__ in _FIXED:
        return None
    # An object of a library with state of its own.
    raise _Unknown


_FIXED = {"ellipsis", "NotImplementedType", "method_descriptor", "wrapper_descriptor",
          "getset_descriptor", "member_descriptor", "method-wrapper", "object", "code"}


def _inside_of_library(x):
    if isinstance(x, slice):
        return [x.start, x.stop, x.step]
    if isinstance(x, types.MethodType):
        return [x.__self__, x.__func__]
    if isinstance(x, types.MappingProxyType):
        return dict(x)
    return [x.func, x.args, x.keywords]


def _fields(x):
    """The fields of an object as a dict, those of __slots__ among them."""
    found = dict(getattr(x, "__dict__", None) or {})
    for cls in type(x).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(x, name):
                found[name] = getattr(x, name)
    return found
