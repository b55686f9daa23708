"""From a Python function and its arguments to a program, and from a run back to arrays."""
import builtins
import difflib
import inspect
import itertools
import math
import os
import re
import sys
import types
import warnings
import weakref

import numpy as np

from . import arrays, devices, dtypes
from . import lib as L
from . import kernel as K
from . import record
from .around import Around
from .blocks import Blocks
from .devices import DeviceArray
from .errors import KernelError, SomaError, outside_of_a_world
from .machine import Machine
from .tensor import HBM, Storage, Tensor
from .views import dense
from .zeros import clear_places


def is_array(x):
    """Whether an argument is a tensor of the kernel: an array of NumPy or of another library. One
    without dimensions whose type the machine has not is a number."""
    if isinstance(x, np.ndarray):
        return x.ndim > 0 or x.dtype.name not in ("float64", "int64", "uint64", "object")
    if isinstance(x, (np.generic, type, str, Tensor)) or x is None:
        return False
    return (hasattr(x, "detach") or hasattr(x, "__array__")) and hasattr(x, "shape") or \
        hasattr(x, "__dlpack__")


_ITERATION = re.compile(r" \(of line \d+[^()]*\)")  # "xT (of line 29, iteration 3)"


class Built:
    """A program with what a run needs: `inputs` (name, path of the argument, storage), `result`
    (the structure that the kernel returned), `written` (names of inputs that it writes)."""

    def __init__(self, name, recs, program, warnings, inputs, result):
        self.program, self.warnings, self.inputs, self.result = program, warnings, inputs, result
        self.builders, self.target, self.name = [r.builder for r in recs], recs[0].target, name
        self.around = None
        program.moments = [r.moments for r in recs]  # of each core, for dap.py
        # Whether it may read what only other rounds or places would have written: then it needs
        # memories of zeros, since those of a machine keep what the kernel before has left.
        self.unknown = any(r.unknown for r in recs)
        self.ranks = max(r.ranks for r in recs)
        self.instructions = sum(r.count for r in recs)
        # (text, file, line) of each reading of a tile in SBUF that nothing has written; of one line
        # that reads several tiles of one name, the first
        said = {}
        for told in (told for r in recs for key, told in r.hints.items() if key[0] == "clear"):
            said.setdefault((_ITERATION.sub("", told[0]), *told[1:]), told)
        self.unwritten = list(said.values())

    def report(self):
        """What the builder did, for each core."""
        texts = [b.report() for b in self.builders]
        return texts[0] if len(texts) == 1 else "\n".join(
            "core %d\n%s" % part for part in enumerate(texts))

    def advice(self):
        """What would make the kernel faster; of two cores for both."""
        return self.builders[0].advice()

    def figures(self):
        """{name: number}; for two cores the sums, and `core` has those of each."""
        each = [b.figures() for b in self.builders]
        if len(each) == 1:
            return each[0]
        return dict({n: sum(f[n] for f in each) for n in each[0]}, core=each)


def _map(x, fn, path):
    """x with fn(leaf, path) in place of the arrays in it; containers and objects are copied."""
    if is_array(x):
        return fn(x, path)
    if isinstance(x, (list, tuple)):
        parts = [_map(v, fn, "%s_%d" % (path, i)) for i, v in enumerate(x)]
        if all(a is b for a, b in zip(parts, x)):
            return x
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, dict):
        parts = {k: _map(v, fn, "%s_%s" % (path, k)) for k, v in x.items()}
        return x if all(parts[k] is x[k] for k in x) else type(x)(parts)
    if _is_record(x):
        fields = {k: _map(v, fn, "%s_%s" % (path, k)) for k, v in vars(x).items()}
        if all(fields[k] is v for k, v in vars(x).items()):
            return x
        copy = object.__new__(type(x))
        copy.__dict__.update(fields)
        return copy
    return x


def _is_record(x):
    """Whether x is an object of a user's class with fields that may hold arrays."""
    return hasattr(x, "__dict__") and not isinstance(
        x, (type, types.FunctionType, types.ModuleType, types.MethodType)) and \
        not callable(x) and type(x).__module__.split(".")[0] not in ("soma", "numpy", "builtins",
                                                                     "enum", "torch", "logging")


def key_of(x):
    """A hashable description of an argument, by which a build is found again; None if no
    description is safe."""
    if is_array(x):
        x = x if hasattr(x, "shape") else arrays.of_dlpack(x)
        data_type = getattr(x, "soma_dtype", None) or x.dtype
        meta = getattr(data_type, "metadata", None)
        return ("array", tuple(x.shape), data_type, str(meta) if meta else "")
    if isinstance(x, (list, tuple)):
        parts = tuple(key_of(v) for v in x)
        return None if None in parts else (type(x).__name__,) + parts
    if isinstance(x, dict):
        parts = tuple((k, key_of(v)) for k, v in x.items())
        return None if any(v is None for _, v in parts) else ("dict",) + parts
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes, np.generic)):
        return (type(x).__name__, x if x == x else "nan")
    if _is_record(x):
        parts = tuple((k, key_of(v)) for k, v in sorted(vars(x).items()))
        return None if any(v is None for _, v in parts) else (type(x),) + parts
    try:
        hash(x)
    except TypeError:
        return None
    return (type(x), x)


def arguments(function, args, kwargs):
    """The arguments of a call by name, defaults included, in the order of the signature."""
    signature, plain = _signatures.get(function) or _signature_of(function)
    if plain and not kwargs and len(args) == len(plain):  # by far the most frequent
        return inspect.BoundArguments(signature, dict(zip(plain, args)))
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError("%s(): %s" % (function.__name__, error)) from None
    bound.apply_defaults()
    return bound


def _signature_of(function):
    """(its signature, the names of its parameters if each may be given by position)."""
    signature = inspect.signature(function)
    usual = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    by_position = {p.kind for p in signature.parameters.values()} <= usual
    plain = tuple(signature.parameters) if by_position else ()
    _signatures[function] = signature, plain
    return signature, plain


_signatures = weakref.WeakKeyDictionary()  # what _signature_of returns, by function


def _input(rec, value, path, found):
    data, dtype = _host(value, path)
    s = Storage(HBM, dtype, data.shape, path)
    s.role, s.buffer = L.ROLE_INPUT, _shared()
    if rec.peer:
        rec.shares(s, rec.peer.inputs[len(found)][1])
    else:
        rec.number(s)
    found.append((path, s))
    return Tensor(s, dtype, data.shape, dense(data.shape))


def _shared():
    language = sys.modules.get("nki.language")
    return language.shared_hbm if language else "shared_hbm"


def _host(value, path):
    try:
        value = devices.placed(value)
        if isinstance(value, DeviceArray):
            return value, dtypes.find(value.dtype)
        return arrays.host_array(value)
    except TypeError as error:
        raise TypeError("argument %s: %s" % (path, error)) from None


_WORDS = ("sbuf", "psum", "hbm")


class _Words:
    """sbuf, psum and hbm as words of the language while a kernel is built."""

    def __enter__(self):
        language = sys.modules.get("nki.language")
        self.added = [w for w in _WORDS if language and not hasattr(builtins, w)]
        for w in self.added:
            setattr(builtins, w, getattr(language, w))

    def __exit__(self, *error):
        for w in self.added:
            delattr(builtins, w)


_machines = {}


def plain_machine(target):
    """A machine for building and for runs without checks; one for each target."""
    if target not in _machines:
        _machines[target] = Machine(target, print=_print)
    return _machines[target]


def _print(text, to_stderr):
    (sys.stderr if to_stderr else sys.stdout).write(text)


def build(function, args, kwargs, target, grid=(), schedule=(), flags=0, core_of=None,
          older=False, **choices):
    """Runs the function once for each program of the grid, recording, and builds the program.
    schedule: (name of an instruction, names of those that it waits for). core_of: with two cores,
    gives the core on which a program of the grid runs. older: of neuronxcc.nki.
    choices: optimize and front_end of kernel.Builder."""
    hints = ({}, {})
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function) or \
            inspect.isasyncgenfunction(function):
        raise KernelError("a kernel is a plain function: with yield or async its body does not run "
                          "when it is called", *_start(function))
    for _ in range(64):
        recs = _recorders(target, flags, hints, core_of, choices)
        for rec in recs:
            rec.grid, rec.schedule = tuple(grid), schedule
            rec.programs, rec.older = math.prod(grid), older
        try:
            around = Around(function, arguments(function, args, kwargs).arguments.values())
            built = _build(recs, core_of, function, args, kwargs)
            built.around = around
            for text, file, line in built.unwritten:
                warn(function, text.split("; ")[0] + "; it reads zeros here", file, line)
            for rec in recs:
                for file, line in rec.lost:
                    warn(function, "the call returns a new tile, which nothing uses: give it a "
                          "dst, or use what it returns", rec.names.get(file), line)
                for (file, line), text in rec.told.items():
                    warn(function, text, rec.names.get(file), line)
            for s in _never_written(recs, built.result):
                warn(function, "%s() returns tensor %s, which nothing writes: it holds zeros"
                      % (built.name, s.name), recs[0].names.get(s.at[0]), s.at[1])
            if built.result is None and not any(r.prints for r in recs) and \
                    not any(s.written for _, s in built.inputs):
                warn(function, "%s() returns nothing and writes none of its arguments: what it "
                      "calculates is lost" % built.name)
            return built
        except record.Redo:
            continue
        except KernelError as error:
            rec = recs[-1 if "core 1: " in error.text else 0]
            if getattr(error, "finishing", False):
                if rec.unwritten():
                    continue
                error.unwritten = [(text, *place) for _, text, place in rec.builder.unwritten()]
            raise _at_user(error) from None
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise _of_this_package(error)
    raise SomaError("the kernel was built 64 times, and each build found something new about "
                    "its tensors")


def _never_written(recs, result):
    """Storages of the result that no instruction of a core writes."""
    found = []

    def note(t):
        s = t.storage
        if s.role == L.ROLE_OUTPUT and s not in found and not s.written and not any(
                other.twin is s and other.written for r in recs[1:] for other in r.tensors):
            found.append(s)

    def walk(x):
        if isinstance(x, Tensor):
            note(x)
        elif isinstance(x, (list, tuple)):
            for v in x:
                walk(v)
        elif isinstance(x, dict):
            walk(list(x.values()))
    walk(result)
    return found


def _start(function):
    """(file, line) at which a kernel begins."""
    code = getattr(function, "__code__", None)
    return (record.shown(code.co_filename), code.co_firstlineno) if code else ("a kernel", 1)


def warn(function, text, file=None, line=0):
    """A warning at a line of a kernel; without a file at its first."""
    code = getattr(function, "__code__", None)
    if not file:
        file, line = (code.co_filename, code.co_firstlineno) if code else ("a kernel", 1)
    registry = getattr(function, "__globals__", {}).setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, UserWarning, file, line, registry=registry)


def _recorders(target, flags, hints, core_of, choices):
    """One recorder, or one for each core."""
    machine, cores = plain_machine(target), 2 if core_of else 1
    flags |= K.ADVICE
    recs = [record.Recorder(machine, target, flags, hints[0], None, cores, choices)]
    if core_of:
        recs.append(record.Recorder(machine, target, flags, hints[1], recs[0], cores, choices))
    return recs


def _build(recs, core_of, function, args, kwargs):
    ids = list(itertools.product(*map(range, recs[0].grid)))
    for rec in recs:
        mine = [i for i in ids if core_of(i) == rec.core] if core_of else ids
        try:
            out = _record(rec, mine, function, args, kwargs)
        except KernelError as error:
            if core_of:
                error.of_core(rec.core)
            raise
        if rec.core == 0:
            result = out
    try:
        program, warnings = recs[0].builder.finish(*(r.builder for r in recs[1:]))
    except KernelError as error:
        error.finishing = True
        error.put("an unknown line", recs[-1 if "core 1: " in error.text else 0].declared())
        raise
    for rec in recs:
        program.texts.update(rec.texts())
    inputs = [_of_both(*(r.inputs[i] for r in recs)) for i in range(len(recs[0].inputs))]
    return Built(getattr(function, "__name__", "kernel"), recs, program, warnings, inputs, result)


def _of_both(first, second=None):
    """An argument's name and storage, from the core that uses it."""
    name, s = first
    if second:
        written = s.written or second[1].written
        s = s if s.handle else second[1]
        s.written = written
    return name, s


def _record(rec, ids, function, args, kwargs):
    """Runs the programs of a core; returns what the first one returned."""
    result = None
    if rec.peer:
        rec.used_names = dict(rec.peer.used_names)
    bound = arguments(function, args, kwargs)
    for name, value in list(bound.arguments.items()):
        bound.arguments[name] = _map(value, lambda x, path: _input(rec, x, path, rec.inputs), name)
    with record.building(rec):
        clear_places(rec)
        with _Words():
            for i, program in enumerate(ids):
                rec.program, rec.program_index, rec.shared_at = program, i, 0
                rec.identities = {}
                out = function(*bound.args, **bound.kwargs)
                rec.flush()
                result = out if i == 0 else result
        if not rec.peer:
            result = _results(rec, result)
        rec.close()
    return result


def _results(rec, x):
    """What the kernel returned; its tensors are outputs."""
    if isinstance(x, Blocks):
        x = x.as_tensor()
    if isinstance(x, Tensor):
        if not x.memory:
            rec.returns(x.storage)
            return x
        s = x.storage
        raise KernelError("the kernel returns %s, which is a tile in %s: store it in a tensor in "
                          "shared_hbm, and return that" % (
                              x.name or "a tile", "PSUM" if x.memory == L.PSUM else "SBUF"),
                          *rec.place_of(s.site.at if s.site else s.at))
    if isinstance(x, (list, tuple)):
        return type(x)(_results(rec, v) for v in x)
    if isinstance(x, dict):
        return {k: _results(rec, v) for k, v in x.items()}
    return x


def _at_user(error):
    """The error with its place in the user's source, and a traceback that has only the user's
    frames."""
    frames, _ = _users(error)
    if frames:
        error.at(*_place(frames[-1]))
    return _cut(error, frames)


def _of_this_package(error):
    """For an error raised by a call into this package, the same; any other error as it is."""
    frames, ours = _users(error)
    if "__array_ufunc__=None" in str(error):
        error.args = ("a function of NumPy does not take a tile, whose values are known when the "
                      "kernel runs: nki.language has functions of tiles",)
        ours = True
    ours = _known(error, frames) or ours
    if not ours or not frames:
        return error
    place = "%s:%d: " % _place(frames[-1])
    if not str(error).startswith(place):
        error.args = (place + str(error),)
    return _cut(error, frames)


_CALL = re.compile(r"(?:\w+\.)*(\w+)\(\) (?:got an unexpected|got multiple|missing \d|takes )")


_VALUES = ": its values are known when the kernel runs, not while it is built"
_INSTEAD = dict(dict.fromkeys(("item", "tolist", "numpy", "cpu"), _VALUES),
                T=": nl.transpose(x) is the transpose")
_MISSING = re.compile(r"module '(nki\.\w+)' has no attribute '(\w+)'")


def _known(error, frames):
    """Whether Python's own error is about a name of this package; it then says which there are."""
    missing = _MISSING.match(str(error)) if isinstance(error, AttributeError) else None
    if missing and missing[1] in sys.modules:
        names = [n for n, value in vars(sys.modules[missing[1]]).items()
                 if n[0] != "_" and not inspect.ismodule(value)]
        near = difflib.get_close_matches(missing[2], names, 4, 0.5)
        error.args = ("%s%s" % (error, "; there is " + ", ".join(near) if near else ""),)
        return True
    called = _CALL.match(str(error)) if isinstance(error, TypeError) else None
    modules = [m for m in map(sys.modules.get, ("nki.isa", "nki.language")) if m]
    if called and frames:
        names = frames[-1].tb_frame.f_code.co_names
        function = next((f for m in modules if (f := getattr(m, called[1], None))), None)
        if not inspect.isfunction(inspect.unwrap(function)) or called[1] not in names or \
                frames[-1].tb_frame.f_globals.get(called[1], function) is not function:
            return False
        error.args = ("%s; its arguments are %s" % (error, ", ".join(
            inspect.signature(function).parameters)),)
        return True
    name, of = getattr(error, "name", None), getattr(error, "obj", None)
    if not isinstance(error, AttributeError) or not isinstance(of, Tensor):
        return False
    if any(hasattr(m, name) for m in modules):
        error.args = ("a tile has no .%s(): nl.%s is a function of tiles" % (name, name),)
    else:
        names = [n for n in dir(Tensor) if n[0] != "_" and getattr(Tensor, n).__doc__]
        near = difflib.get_close_matches(name, names, 4, 0.6)
        more = "; it has " + ", ".join(near) if near else _INSTEAD.get(name, "")
        error.args = ("a tensor has no .%s%s" % (name, more),)
    return True


_NUMPY = os.path.dirname(np.__file__) + os.sep, "<__array_function__ internals>"


def _users(error):
    """(the user's frames of an error, without NumPy's; whether the innermost frame of all is this
    package's)."""
    frames, at, ours = [], error.__traceback__, False
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        ours = record.is_own(file)
        if not ours and not file.startswith(_NUMPY):
            frames.append(at)
        at = at.tb_next
    return frames, ours


def _place(frame):
    return record.shown(frame.tb_frame.f_code.co_filename), frame.tb_lineno


def _cut(error, frames):
    """The error with only these frames."""
    kept = None
    for f in reversed(frames):
        kept = types.TracebackType(kept, f.tb_frame, f.tb_lasti, f.tb_lineno)
    return error.with_traceback(kept)


def users(error):
    """The error with the user's frames alone."""
    return _cut(error, _users(error)[0])


def below(error):
    """The error without the frames of this package above the kernel's. If a rule of a kernel is
    broken where none of its frames is left, without any."""
    at = error.__traceback__
    while at is not None and record.is_own(at.tb_frame.f_code.co_filename):
        at = at.tb_next
    return error if at is None and not isinstance(error, SomaError) else error.with_traceback(at)


# ---- Running ----

def bind(built, bound, in_world=False):
    """{tensor: array} of a call's arguments, and the caller's arrays by tensor."""
    if built.ranks > 1 and not in_world:
        raise outside_of_a_world(built.name, built.ranks)
    values, owners = {}, {}
    storages = iter(built.inputs)

    def take(x, path):
        name, s = next(storages)
        if s.handle:
            if s.written and arrays.has_gradient(x):
                raise KernelError("argument %s: the kernel writes it, and torch keeps its gradient "
                                  "(requires_grad): give %s.detach(), which shares its memory, or "
                                  "call it under torch.no_grad()" % (path, path))
            on = devices.placed(x)
            if isinstance(on, DeviceArray):
                owners[s.name], values[s.name] = (on, s), on.reshape(s.declared)
                return x
            if s.written and arrays.memory_of(x) is None:
                where = "" if isinstance(x, np.ndarray) else ", or not in the host's memory"
                raise KernelError("argument %s: the kernel writes it, and the array is read-only"
                                  "%s: give it a copy" % (path, where))
            data, dtype = arrays.host_array(x)
            raw = arrays.from_bits(data, dtype) if dtype.numpy.kind == "V" else data
            values[s.name] = raw.reshape(s.declared)
            owners[s.name] = (x, s)
        return x
    for name, value in bound.arguments.items():
        _map(value, take, name)
    return values, owners


def fetch(run, t, taken):
    """The array of a returned tensor, which may be a view. The first one of a tensor is the run's
    own memory, others are copies; taken: the names of those returned before."""
    s = t.storage
    if s.name in run.placed:
        return devices.part_of(run.placed[s.name], t)
    whole = run.fetch(s.name) if s.name in taken else run.take(s.name)
    taken.add(s.name)
    if t.dtype is s.dtype and t.size == s.free and t.steps == dense(t.shape) and not t.dyn:
        return whole.reshape(t.shape)
    flat = np.ascontiguousarray(whole.view(np.ndarray) if isinstance(whole, np.ndarray) else whole)
    bits = flat.reshape(-1).view("u%d" % s.dtype.size).view("u%d" % t.dtype.size)
    out = np.lib.stride_tricks.as_strided(
        bits[t.off:], t.shape, [k * t.dtype.size for k in t.steps]).copy()
    if t.dtype.numpy.kind == "V":
        return arrays.from_bits(out, t.dtype)
    return out.view(t.dtype.numpy)


def results(run, x, convert, taken=None):
    """The structure that the kernel returned, with arrays for its tensors."""
    taken = set() if taken is None else taken
    if isinstance(x, Tensor):
        return convert(fetch(run, x, taken))
    if isinstance(x, (list, tuple)):
        return type(x)(results(run, v, convert, taken) for v in x)
    if isinstance(x, dict):
        return {k: results(run, v, convert, taken) for k, v in x.items()}
    return x


def machine_for(built, values, options):
    """(the machine of a run, what makes a result of an array): that of the device on which all
    arrays are. With options a run has a machine of its own, and works on copies."""
    on = devices.common(values.values())
    if on and built.target != on.target:
        raise KernelError("%s() is built for %s, and its arguments are on %s, a %s"
                          % (built.name, built.target, on.name, on.target))
    if options:
        return Machine(built.target, print=_print, **options), on and on.array
    return on._open() if on else plain_machine(built.target), None


def write_back(run, owners):
    """Copies inputs that the kernel wrote back into the caller's arrays."""
    for name, (value, s) in owners.items():
        if not s.written:
            continue
        if isinstance(value, DeviceArray):
            if value.device.machine is not run.machine:  # else the run has written it in place
                value._write(np.ascontiguousarray(run.fetch(name)))
            if value.copy_of is not None:
                sys.modules["soma.torch"].write(value.copy_of, value)
            continue
        target = arrays.memory_of(value)
        data = np.asarray(run.take(name)).view(np.ndarray)
        target[...] = data.reshape(target.shape).view(target.dtype)
