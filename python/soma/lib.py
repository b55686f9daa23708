"""libsoma.so through ctypes: where it is, its structs, its functions.

The library is looked for in this order: $SOMA_LIB (a file); this folder (a wheel has it there); the
build next to it (`../../build/libsoma.so`, or $BUILD); the lib folder of an installation that has
this package; the system's loader."""
import ctypes as C
import linecache
import os
import re

from . import callbacks
from .errors import LibraryNotFound

P = C.c_void_p
WRITE = C.CFUNCTYPE(C.c_int, P, C.POINTER(C.c_char), C.c_size_t)
SOURCE = C.CFUNCTYPE(P, P, C.c_char_p, C.POINTER(C.c_size_t))
PRINT = C.CFUNCTYPE(None, P, C.c_int, C.POINTER(C.c_char), C.c_size_t)
EVENT = C.CFUNCTYPE(None, P, P)
LOG = C.CFUNCTYPE(None, P, P)
SHARE = C.CFUNCTYPE(C.c_int, P, P, C.c_uint32, P)
EXCHANGE = C.CFUNCTYPE(C.c_int, P, P, P, P, P)

# The numbers of soma.h, in its order.
OK, NOMEM, ARG, IO, SYNTAX, FORMAT, ILLEGAL, UNBUILT, FAULT, DEADLOCK, LIMIT, STOPPED, BUSY, \
    CHECK = range(14)
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
SEQUENCERS = ENGINES + ("cc0", "cc1", "cc2")
ROLE_TEMP, ROLE_INPUT, ROLE_OUTPUT, ROLE_CONST = range(4)
SBUF, PSUM = 1, 2
END, ISSUE, TIME = 0, 2, 3  # soma_until
# The schedule with which a run keeps what soma_run_schedules needs.
SCHEDULE_ALL = (1 << 64) - 1


_KINDS = {"int": C.c_int, "uint": C.c_uint, "u16": C.c_uint16, "i32": C.c_int32, "u32": C.c_uint32,
          "i64": C.c_int64, "u64": C.c_uint64, "size": C.c_size_t, "f64": C.c_double, "ptr": P,
          "char": C.c_char, "str": C.c_char_p, "PRINT": PRINT, "SHARE": SHARE,
          "EXCHANGE": EXCHANGE, "SOURCE": SOURCE, "WRITE": WRITE, "LOG": LOG, "out": C.POINTER(P),
          "void": None}


def _kind(name):
    return C.POINTER(_KINDS[name[1:]]) if name[0] == "*" else _KINDS[name]


def _struct(name, fields):
    """A struct from its fields as in the headers, "u32 line; str file; u64 first[2] end"."""
    found = []
    for group in fields.split(";"):
        kind, *names = group.split()
        kind = _kind(kind)
        for field in names:
            field, _, n = field.rstrip("]").partition("[")
            found.append((field, kind * int(n) if n else kind))
    _KINDS[name] = made = type(C.Structure)(name, (C.Structure,), {"_fields_": found})
    return made


Options = _struct("Options", """
    size size; str target; u64 max_instructions max_time; f64 max_seconds; u64 max_hbm_bytes;
    int saturate; str simd; ptr alloc alloc_ud event event_ud; PRINT print; ptr print_ud
    progress progress_ud; u64 rounding_seed; str costs; int timing_only causes; uint checks;
    u64 schedule; uint threads; f64 max_cpu_seconds; ptr error; size error_size; int no_twins""")
Transport = _struct("Transport", "u32 rank size; ptr ud; SHARE share; EXCHANGE exchange")
WorldOptions = _struct("WorldOptions", """
    size size; u32 ranks lnc; str instance; ptr machine machines; uint threads; str algorithm;
    u64 window; ptr error; size error_size; *Transport transport""")
Collective = _struct("Collective", """
    str op algorithm file; u32 line pc core ranks; int engine; u64 bytes issued end; f64 algbw
    busbw""")
LinkRow = _struct("LinkRow", """
    int from to; u64 bytes messages waiting busy waited; f64 rate gbs percent""")
AssembleOptions = _struct("AssembleOptions", """
    size size; *str include_dirs; u32 ninclude_dirs; *str defines; u32 ndefines; int no_files;
    ptr env""")
TargetInfo = _struct("TargetInfo", """
    str name; u32 generation cores sbuf_bytes psum_bytes dma_engines hypothetical zero""")
TensorInfo = _struct("TensorInfo", "str name; int dtype role; u32 ndim; i64 shape[8]; u64 bytes")


def _candidates():
    here = os.path.dirname(os.path.abspath(__file__))
    # What the user names is the only candidate: another one would hide that it is wrong.
    if os.environ.get("SOMA_LIB"):
        yield os.environ["SOMA_LIB"]
        return
    yield os.path.join(here, "libsoma.so")
    root = os.path.dirname(os.path.dirname(here))
    build = os.environ.get("BUILD", "build")
    yield os.path.join(root, build, "libsoma.so")
    up = here
    for _ in range(4):  # PREFIX/lib/soma/python/soma, or a virtual environment's packages
        up = os.path.dirname(up)
        for name in ("libsoma.so", "libsoma.so.0"):
            yield os.path.join(up, name)
            yield os.path.join(up, "lib", name)
    # The last two have no folder: the loader looks for them.
    for name in ("/usr/local/lib/libsoma.so.0", "libsoma.so.0", "libsoma.so"):
        yield name


def _load():
    tried = []
    for path in _candidates():
        if os.sep in path and not os.path.exists(path):
            tried.append(path)
            continue
        try:
            return C.CDLL(path)
        except OSError as error:
            tried.append("%s (%s)" % (path, error))
    raise LibraryNotFound("libsoma.so was not found; build it with `make`, or set SOMA_LIB to its "
                          "path. Tried:\n  " + "\n  ".join(tried))


lib = _load()
Stat = _struct("Stat", "str name script unit text; u32 offset bytes elements")


def _stats(of_engine):
    """The fields of soma_stats or of soma_engine_stats, as the library says. Those of soma_stats
    leave out `engine`, which has a struct for each."""
    found, at, i, f = [], 0, 0, Stat()
    if not hasattr(lib, "soma_stats_field"):
        raise ImportError("%s has no soma_stats_field: it is of another version" % lib._name)
    lib.soma_stats_field.argtypes = [C.c_int, C.c_uint32, C.POINTER(Stat)]
    while lib.soma_stats_field(of_engine, i, C.byref(f)) == OK:
        if f.offset > at + 4:  # more than a gap between 32 and 64 bits
            found.append(("engine", EngineStats * len(ENGINES)))
        kind = {b"seconds": C.c_double, b"flag": C.c_int}.get(
            f.unit, C.c_uint32 if f.bytes == 4 else C.c_uint64)
        found.append((f.name.decode(), kind * f.elements if f.elements > 1 else kind))
        at, i = f.offset + f.bytes * f.elements, i + 1
    return found


class EngineStats(C.Structure):
    _fields_ = _stats(1)


class Stats(C.Structure):
    _fields_ = _stats(0)


_KINDS["Stats"] = Stats
Figures = _struct("Figures", """
    f64 mfu hfu mbu intensity peak_flops ridge attainable_flops model_flops dma_active
    dma_average_bytes active[5] utilization[5]""")
HbmStack = _struct("HbmStack", "u64 capacity used")
HbmUsage = _struct("HbmUsage", """
    u64 capacity used high_water free largest_free; u32 blocks free_blocks stacks; HbmStack
    stack[8]""")
Fault = _struct("Fault", """
    int status engine dma_engine; u32 pc line; str file; u64 time; str instruction text""")
Finding = _struct("Finding", "int check engine; u32 pc line; str file; u64 time; str text")
WorldFinding = _struct("WorldFinding", "Finding first; *u32 ranks; u32 nranks number")
Place = _struct("Place", "int engine; u32 core pc line; str file")
Schedules = _struct("Schedules", """
    int verdict; u64 states; int engine other_engine; u32 pc other_pc; str text""")
Unsignalled = _struct("Unsignalled", """
    str tensor; u32 core other_core; str other_file; u32 other_line; size fix fix_end""")
KernelOptions = _struct("KernelOptions", """
    size size; str target; u32 flags sbuf_bytes core cores optimize; str front_end; u32 without""")
TileInfo = _struct("TileInfo", """
    size size; str name; int memory dtype; u32 ndim shape[5]; i32 partition offset; u32 file
    line outside""")
KernelRange = _struct("KernelRange", """
    size size; i32 start stop step; u32 start_register stop_register file line""")
KernelPolicy = _struct("KernelPolicy", "str name; u64 time; int done chosen")
KernelAdvice = _struct("KernelAdvice", """
    int kind; u64 saved; str instruction; u32 line; str file name; u32 times; int engine; str
    text""")
KernelFigures = _struct("KernelFigures", """
    u64 instructions made nops dependences waits reuse_waits transfers queues semaphores tiles
    sbuf_bytes psum_bytes spills spilled_bytes busy[5] dma_busy; int bound; u64 copies versions
    left_out trimmed moved""")
Unwritten = _struct("Unwritten", "u32 buffer; str text file; u32 line")
PathSegment = _struct("PathSegment", """
    int kind engine dma_engine; u32 pc line; uint core; str file name cause; u64 start end; int
    queue semaphore; str queue_name semaphore_name; int rank""")
IdleGap = _struct("IdleGap", """
    int kind engine; u64 start end waited; int semaphore late_engine late_queue; u32 reached;
    char condition[20]; u32 pc line late_pc late_line; u16 core late_core; str semaphore_name
    queue_name file late_file late_name""")
ProgramTile = _struct("ProgramTile", """
    str name; int memory dtype; u32 ndim shape[5] partition offset bytes""")
Instruction = _struct("Instruction", """
    int engine; u32 pc line; str file name label; i64 target; u32 call""")
Stop = _struct("Stop", """
    int kind quiet engine; u32 pc; u64 count; u32 semaphore; str condition; u32 value; str
    tensor; int memory; u32 partition partitions; u64 offset bytes; uint core""")
EngineState = _struct("EngineState", """
    int status; u32 pc; u64 instructions time since; int semaphore; str condition; u32 want
    have; int queue; u32 in_flight; int passes""")
Hit = _struct("Hit", """
    u32 stop; int engine dma_engine; u32 pc; u64 start time; u32 value; int part; uint core;
    int from_rank""")
Transfer = _struct("Transfer", """
    int engine; u32 pc queue shares; u64 bytes moved; int semaphore; uint semaphore_core""")
Field = _struct("Field", """
    str name; int kind; u32 mode reads writes sbuf psum hbm column element dims most set""")


# What the library has, by result and arguments: int(ptr str) a b are soma_a and soma_b, and
# `out` is where a pointer is put.
_FUNCTIONS = """
    str() version
    str(int) status_text dtype_name check_name table_name
    size(int) dtype_size
    int(*Options out) machine_new
    void(ptr) machine_free bytes_free program_free diagnostics_free tensor_free snapshot_free
        result_free run_free recorder_free recorder_clear world_free world_snapshot_free
    int(ptr) machine_clear run_ended world_start world_again
    int(ptr u64) set_schedule world_until
    str(ptr) error target program_target diagnostics_text world_error world_instance world_trust
    int(ptr str out *size) costs_print
    int(ptr str size str *AssembleOptions out out) assemble
    int(ptr ptr size out) program_load
    int(ptr ptr out *size) program_save program_print
    u32(ptr) program_tensors run_hits program_tiles world_findings world_links
    int(ptr u32 *TensorInfo) program_tensor run_tensor
    int(ptr ptr out) lint run_start run_snapshot world_keep
    int(ptr ptr str int u32 *i64 ptr) bind
    int(ptr ptr str i64) bind_rows
    int(ptr ptr str ptr) bind_tensor
    void(ptr ptr) unbind
    int(ptr int u32 *i64 out) tensor_new
    int(ptr u64 int u32 *i64 out) tensor_view
    int(ptr ptr size) tensor_write tensor_read world_resume
    int(ptr u64 ptr size u64) tensor_fill
    void(ptr *u64 *u64) traffic world_traffic
    void(ptr *HbmUsage size) hbm_stats
    int(ptr ptr) move_to_device recorder_links world_return
    int(ptr int int u64) run_until
    int(ptr u32 ptr size) run_hit
    int(out ptr) run_return
    int(ptr uint int u32 out *size) instruction_text
    int(ptr ptr size *u32) run_stop_add
    int(ptr u32) run_stop_remove
    int(ptr uint int) core_issue
    int(ptr uint int ptr size) core_engine
    int(ptr uint u32 ptr size) core_transfer
    int(ptr WRITE ptr) write_waits
    u32(ptr uint int) program_instructions
    int(ptr uint int u32 ptr size) program_instruction
    str(ptr uint u32) program_semaphore_name program_queue_name
    int(ptr out *size) run_save world_save
    int(ptr ptr size out out) run_resume
    int(ptr LOG ptr) run_log
    int(ptr ptr size WRITE ptr) write_logged
    int(ptr str ptr size) fetch
    int(ptr str out) take
    ptr(ptr) result_data
    void(ptr *Stats size) run_stats recorder_stats
    void(ptr *Fault) run_fault
    int(ptr *TargetInfo size) machine_target
    int(u32 *TargetInfo size) target_row
    u64(ptr) run_findings world_time world_hash
    int(ptr u32 *Finding) run_finding
    uint(ptr u32) run_finding_core
    int(ptr ptr u32 *u32) critical_path
    int(ptr ptr ptr u32 *u32) idle_gaps
    int(ptr u32 *ProgramTile) program_tile
    int(ptr uint int u32 u64 ptr size) core_memory_write core_memory_read
    int(ptr uint u32 u32) core_semaphore_set
    int(ptr uint int u32 u32) core_register_set
    int(ptr uint u32 *u32) core_semaphore_get
    int(ptr uint int u32 *u32) core_register_get
    int(ptr uint str) program_core_semaphore
    int(ptr *Schedules size) run_schedules
    int(ptr out) recorder_new
    int(ptr ptr u32) recorder_collectives
    int(ptr ptr WRITE ptr) write_chrome write_explanation
    int(ptr ptr u32 WRITE ptr) write_world_chrome
    int(ptr ptr uint WRITE ptr) write_timeline
    int(ptr ptr ptr ptr WRITE ptr) write_page
    int(ptr ptr ptr ptr ptr WRITE ptr) write_world_page
    int(ptr ptr int int WRITE ptr) write_table
    void(*Stats *Figures size) stats_figures
    int(*WorldOptions out) world_new
    int(ptr u32 ptr) world_load
    int(ptr int u32 uint int u64) world_step
    ptr(ptr u32) world_run world_program
    u32(ptr u32) world_collectives
    int(ptr u32 *WorldFinding size) world_finding_at
    int(ptr u32 *LinkRow) world_link
    int(ptr int int f64 u64) world_slow_link
    int(ptr u32 u64) world_delay_rank
    int(ptr u32 u32 *Collective) world_collective
    int(ptr size *WorldOptions) world_saved
    int(ptr size ptr size) world_saved_target
    uint(ptr) program_cores
"""
# The same of what an older library may lack.
_KERNEL = """
    int(ptr u32 *Place size) run_finding_other
    int(ptr u32 *Unsignalled size) run_unsignalled
    int(ptr *KernelOptions out) kernel_new
    void(ptr) kernel_free
    str(ptr) kernel_error
    str(ptr *str *u32) kernel_error_place
    int(ptr str *u32) kernel_file
    int(ptr str int u32 *i64 int *u32) kernel_tensor
    int(ptr int u32 *i64 ptr *u32) kernel_constant
    int(ptr *TileInfo *u32) kernel_tile
    int(ptr u32 int u32 *u32) kernel_queue
    int(ptr u32 *u32 *u32 *u32) kernel_group
    int(ptr *u32) kernel_register
    int(ptr ptr size ptr) kernel_emit
    u32(ptr) kernel_count
    int(ptr u32 u32) kernel_order
    int(ptr) kernel_may_spill kernel_endloop
    int(ptr *KernelRange *u32) kernel_loop
    int(ptr u32 u32 u32) kernel_while
    int(ptr out out) kernel_finish
    int(ptr ptr out out) kernel_finish_pair
    int(ptr WRITE ptr) kernel_report
    int(ptr u32 *Unwritten) kernel_get_unwritten
    void(ptr *KernelFigures size) kernel_get_figures
    int(ptr u32 *KernelPolicy size) kernel_get_policy
    int(ptr u32 *KernelAdvice size) kernel_get_advice
    int(str) opcode is_word
    int(u32 u32 *Field) opcode_field
    str(*Field u32) field_value
    str(int) field_kind_name
"""


def _declare(functions, needed):
    """Gives the functions of a table their types."""
    signature = None
    for word in re.findall(r"\w+\([^)]*\)|\w+", functions):
        if "(" in word:
            kinds = [_kind(k) for k in word[:-1].replace("(", " ").split()]
            signature = kinds[0], kinds[1:]
        elif hasattr(lib, "soma_" + word):
            function = getattr(lib, "soma_" + word)
            function.restype, function.argtypes = signature
        elif needed:
            raise ImportError("%s has no soma_%s: it is of another version" % (lib._name, word))


_declare(_FUNCTIONS, True)
_declare(_KERNEL, False)

# tile(handle, byref(info), byref(number)) is called for each tile. It takes ctypes' own values as
# they are, and does not let go of the interpreter's lock, which takes longer than the call.
tile = C.PyDLL(lib._name)["soma_kernel_tile"]


PageOptions = _struct("PageOptions", "size size; str title; SOURCE source; ptr source_ud")


class Sources:
    """The texts of source files for a page: those given by name, else what Python has of a file."""

    def __init__(self, texts):
        self.texts, self.data = texts, None
        self.fn = SOURCE(callbacks.wrap(self._source))

    def _source(self, _ud, file, n):
        name = file.decode("utf-8", "replace")
        text = self.texts.get(name) or "".join(linecache.getlines(name))
        self.data = text.encode("utf-8", "replace")  # stays until the next call
        n[0] = len(self.data)
        # The library copies it before it asks for the next one.
        return C.cast(C.c_char_p(self.data), P).value if text else None


Logged = _struct("Logged", """
    int engine; u32 pc; u64 start end waited; int reg; u32 value; u64 elements nans; f64 min
    max; uint core""")


class Log:
    """A soma_log_fn that hands lines of text to a function."""

    def __init__(self, program, write):
        def told(_ud, logged):
            line = Collect()
            lib.soma_write_logged(program, logged, C.sizeof(Logged), line.fn, None)
            write(line.text())
        self.fn = LOG(callbacks.wrap(told))


class Collect:
    """A soma_write_fn that keeps what is written: `c = Collect(); callbacks.call(f, ..., c.fn,
    None); c.text()`."""

    def __init__(self):
        self.parts = []
        self.fn = WRITE(callbacks.wrap(self._write, 1))

    def _write(self, _ud, data, n):
        self.parts.append(C.string_at(data, n))
        return 0

    def bytes(self):
        return b"".join(self.parts)

    def text(self):
        return self.bytes().decode("utf-8", "replace")


class Owner:
    """Owns what `handle` is, which libsoma made: it is given back with the object, once."""

    _free = None  # the name of its function in libsoma
    _instead = None  # of a copy

    def __init__(self):
        self.handle = C.c_void_p()

    def give_back(self):
        # Ctrl-C comes before the first line or after the last
        handle, self.handle = self.handle, None
        if handle:
            getattr(lib, self._free)(handle)

    def __del__(self):
        # `lib` is None when the interpreter ends; an object whose __init__ failed has no handle.
        if lib and getattr(self, "handle", None):
            self.give_back()

    def __reduce_ex__(self, _protocol):
        raise TypeError("a %s cannot be copied or pickled: %s" % (type(self).__name__,
                                                                  self._instead))


def take_bytes(pointer, n):
    """Copies a block that libsoma made, and frees it."""
    data = C.string_at(pointer, n.value)
    lib.soma_bytes_free(pointer)
    return data
