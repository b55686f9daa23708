"""The emit layer: a thin Python side of soma_kernel.h. Nothing here orders, places or chooses.

A record is a list of 64-bit words (soma_kernel.h describes them); Builder.emit takes one and raises
KernelError with the place when it breaks a rule.
"""
import ctypes as C
import struct

from . import advice, callbacks
from . import lib as L
from .checked import word
from .errors import KernelError, NotBuilt
from .lib import lib
from .machine import Program, _take_diagnostics, _text
from .words import of_instruction, of_nki

KEEP_ORDER, FIXED_ENGINES, COPIES, NO_DGE, ADVICE = 2, 4, 8, 16, 32
MERGES = 1024  # of the passes that `without` leaves out
ACCUMULATE, STATIC, SWDGE, HWDGE = 1, 2, 4, 8  # flags of a record


def pack(words):
    """Words as bytes."""
    try:
        return struct.pack("%dq" % len(words), *words)
    except struct.error:
        for w in words:
            if not isinstance(w, int):
                raise KernelError("%r is not a whole number" % (w,)) from None
        raise KernelError("the number %d does not fit in 64 bits"
                          % max(words, key=abs)) from None


def fits(sizes, bits, what):
    """The sizes, which must fit in so many bits: ctypes would cut them."""
    for n in sizes:
        if not 0 < n < 1 << bits:
            raise KernelError("%s has a dimension of %d elements: it must be 1 to %d"
                              % (what, n, (1 << bits) - 1))
    return sizes

_FIVE = C.c_uint32 * 5


def without(function):
    """The builder's passes that a decorator of nki.compiler switches off for a function."""
    return MERGES if getattr(function, "unmerged", False) else 0


class Builder(L.Owner):
    """One kernel being built on a machine."""

    _free = "soma_kernel_free"
    _instead = "build another"

    def __init__(self, machine, target=None, flags=0, sbuf_bytes=0, core=0, cores=1, optimize=1,
                 front_end=None, without=0):
        if not hasattr(lib, "soma_kernel_new"):
            raise ImportError("this libsoma has no kernel builder (soma_kernel_new)")
        o = L.KernelOptions(C.sizeof(L.KernelOptions), target.encode() if target else None, flags,
                            sbuf_bytes, core, cores, optimize,
                            front_end.encode() if front_end else None, without)
        k = C.c_void_p()
        self.handle = None
        self.machine = machine
        machine._check(lib.soma_kernel_new(machine.handle, C.byref(o), C.byref(k)))
        self.handle = k
        self._k = self.address = k.value
        self.number = C.c_uint32()  # where functions put the number that they return
        self.found = C.byref(self.number)

    def fail(self, status):
        """Raises the error of a call that returned `status`."""
        file, line = C.c_char_p(), C.c_uint32()
        text = of_nki(_text(lib.soma_kernel_error_place(self.handle, C.byref(file), C.byref(line))))
        kind = NotBuilt if status == L.UNBUILT else KernelError
        raise kind(text, _text(file.value) or None, line.value, status)

    def _number(self, function, *arguments):
        status = function(self._k, *arguments, self.found)
        if status:
            self.fail(status)
        return self.number.value

    def file(self, name):
        return self._number(lib.soma_kernel_file, name.encode())

    def tensor(self, name, dtype, shape, role):
        """A tensor in HBM; role is one of lib.ROLE_..."""
        fits(shape, 63, "tensor %s" % name)
        return self._number(lib.soma_kernel_tensor, name.encode(), dtype.code, len(shape),
                            (C.c_int64 * len(shape))(*shape), role)

    def constant(self, dtype, shape, data):
        """A constant in HBM from a contiguous array."""
        return self._number(lib.soma_kernel_constant, dtype.code, len(shape),
                            (C.c_int64 * len(shape))(*shape), data.ctypes.data)

    @staticmethod
    def tile_info(name, memory, dtype, shape, place=None, at=(0, 0), outside=0):
        """Declares a tile from the arguments of lib.tile; place is (start partition, byte offset)
        or None, at (file, line); it belongs outside of so many of the open loops."""
        fits(shape, 32, "tile %s" % (name or "without a name"))
        return L.TileInfo(C.sizeof(L.TileInfo), name.encode() or None, memory, dtype.code,
                          len(shape), _FIVE(*shape), *(place or (-1, -1)), *at, outside)

    def queue(self, dge, engine, prio=0):
        return self._number(lib.soma_kernel_queue, dge, engine, prio)

    def group(self, lists):
        """Replica groups: lists of ranks. Equal ones have one number."""
        ranks = [r for ranks in lists for r in ranks]
        sizes = [len(ranks) for ranks in lists]
        return self._number(lib.soma_kernel_group, len(sizes), (C.c_uint32 * len(sizes))(*sizes),
                            (C.c_uint32 * len(ranks))(*ranks))

    def register(self):
        return self._number(lib.soma_kernel_register)

    def order(self, earlier, later):
        status = lib.soma_kernel_order(self.handle, earlier, later)
        if status:
            self.fail(status)

    def may_spill(self):
        """Tiles that do not fit may be spilled."""
        status = lib.soma_kernel_may_spill(self.handle)
        if status:
            self.fail(status)

    def begin(self, kind, words, file, line):
        """Begins a "loop" of (start, stop, step), or a "while" of (register,)."""
        return self.loop(*words, file, line) if kind == "loop" else self.while_(*words, file, line)

    def loop(self, start, stop, step, file, line):
        """Begins a loop; start and stop are ("value", n) or ("register", r). Returns the loop's
        register."""
        step = word(step, "the step of a loop at run time")
        r = L.KernelRange(C.sizeof(L.KernelRange), step=step, file=file, line=line)
        for name, (kind, value) in (("start", start), ("stop", stop)):
            value = word(value, "the %s of a loop at run time" % name)
            setattr(r, name + ("_register" if kind == "register" else ""), value)
        return self._number(lib.soma_kernel_loop, C.byref(r))

    def while_(self, register, file, line):
        status = lib.soma_kernel_while(self.handle, register, file, line)
        if status:
            self.fail(status)

    def endloop(self):
        status = lib.soma_kernel_endloop(self.handle)
        if status:
            self.fail(status)

    def finish(self, second=None):
        """(program, warnings as text); with the builder of core 1, the program of both cores."""
        p, d = C.c_void_p(), C.c_void_p()
        if second:
            status = lib.soma_kernel_finish_pair(self.handle, second.handle, C.byref(p), C.byref(d))
        else:
            status = lib.soma_kernel_finish(self.handle, C.byref(p), C.byref(d))
        text = _take_diagnostics(d)
        if status:
            file, line = C.c_char_p(), C.c_uint32()
            own = of_nki(_text(lib.soma_kernel_error_place(self.handle, C.byref(file),
                                                           C.byref(line))))
            place = None if text else _text(file.value) or None
            raise KernelError(of_nki(text.strip()) or own, place, line.value, status,
                              report=text or own)
        return Program(self.machine, p, {}), text

    def unwritten(self):
        """After a failed finish(): (number, text, (file, line)) of each tile and tensor that is
        read before it is written."""
        found, u = [], L.Unwritten()
        while lib.soma_kernel_get_unwritten(self.handle, len(found), C.byref(u)) == L.OK:
            found.append((u.buffer, of_nki(_text(u.text)), (_text(u.file), u.line)))
        return found

    def report(self):
        c = L.Collect()
        status = callbacks.call(lib.soma_kernel_report, self.handle, c.fn, None)
        if status:
            self.fail(status)
        return c.text()

    def policies(self):
        """[(name, microseconds or None, whether it was chosen)] of what optimize=2 has tried."""
        found, p = [], L.KernelPolicy()
        while lib.soma_kernel_get_policy(self.handle, len(found), C.byref(p), C.sizeof(p)) == L.OK:
            found.append((_text(p.name), p.time / 1e6 / 1e3 if p.done else None, bool(p.chosen)))
        return found

    def advice(self):
        """What would make the kernel faster: Advices. The first call tries it."""
        found, a = advice.Advices(), L.KernelAdvice()
        while lib.soma_kernel_get_advice(self.handle, len(found), C.byref(a), C.sizeof(a)) == L.OK:
            kind = advice.KINDS[a.kind]
            found.append(advice.Advice(
                kind, a.saved / 1e6 / 1e3, _text(a.file) or None, a.line or None,
                of_instruction(_text(a.instruction)) or None, _text(a.name) or None, a.times,
                L.ENGINES[a.engine] if kind == "engine" else None,
                _text(a.text)))
        return found

    def figures(self):
        """{name: number} of soma_kernel_figures."""
        f = L.KernelFigures()
        lib.soma_kernel_get_figures(self.handle, C.byref(f), C.sizeof(f))
        return {name: getattr(f, name) for name, _ in L.KernelFigures._fields_
                if name not in ("busy", "bound")}


def opcode(name):
    """Number of an instruction, -1 if the library does not have it."""
    return lib.soma_opcode(name.encode()) if hasattr(lib, "soma_opcode") else -1


def form(name):
    """An instruction's fields in order: [(name, kind as SOMA_FIELD_ has it)]."""
    found, f = [], L.Field()
    while lib.soma_opcode_field(opcode(name), len(found), C.byref(f)) == L.OK:
        found.append((f.name.decode(), lib.soma_field_kind_name(f.kind).decode()))
    return found


def codes(instruction, field):
    """{name: code} of the values of an instruction's field."""
    f, i = L.Field(), 0
    if not hasattr(lib, "soma_opcode_field"):
        return {}
    while lib.soma_opcode_field(opcode(instruction), i, C.byref(f)) == L.OK:
        if f.name.decode() == field:
            found = {}
            while True:
                name = lib.soma_field_value(C.byref(f), len(found))
                if name is None:
                    return found
                found[name.decode()] = len(found)
        i += 1
    raise KeyError("%s has no field %s" % (instruction, field))
