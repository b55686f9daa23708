"""libsoma.so through ctypes: where it is, its structs, its functions.

The library is looked for in this order: $SOMA_LIB (a file); this folder (a wheel has it there); the
build next to it (`../../build/libsoma.so`, or $BUILD); the lib folder of an installation that has
this package; the system's loader."""
import ctypes as C
import linecache
import os

from . import callbacks
from .errors import LibraryNotFound

P = C.c_void_p
WRITE = C.CFUNCTYPE(C.c_int, P, C.POINTER(C.c_char), C.c_size_t)
SOURCE = C.CFUNCTYPE(P, P, C.c_char_p, C.POINTER(C.c_size_t))
PRINT = C.CFUNCTYPE(None, P, C.c_int, C.POINTER(C.c_char), C.c_size_t)
EVENT = C.CFUNCTYPE(None, P, P)
LOG = C.CFUNCTYPE(None, P, P)

OK, NOMEM, ARG, IO, SYNTAX, FORMAT, ILLEGAL, UNBUILT, FAULT, DEADLOCK, LIMIT, STOPPED, BUSY, \
    CHECK = range(14)
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
SEQUENCERS = ENGINES + ("cc0", "cc1", "cc2")
ROLE_TEMP, ROLE_INPUT, ROLE_OUTPUT, ROLE_CONST = range(4)
SBUF, PSUM = 1, 2
END, ISSUE, TIME = 0, 2, 3  # soma_until
SCHEDULE_ALL = (1 << 64) - 1


class Options(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p), ("max_instructions", C.c_uint64),
                ("max_time", C.c_uint64), ("max_seconds", C.c_double),
                ("max_hbm_bytes", C.c_uint64), ("saturate", C.c_int), ("simd", C.c_char_p),
                ("alloc", P), ("alloc_ud", P), ("event", P), ("event_ud", P), ("print", PRINT),
                ("print_ud", P), ("progress", P), ("progress_ud", P),
                ("rounding_seed", C.c_uint64), ("costs", C.c_char_p), ("timing_only", C.c_int),
                ("causes", C.c_int), ("checks", C.c_uint), ("schedule", C.c_uint64),
                ("threads", C.c_uint), ("max_cpu_seconds", C.c_double),
                ("error", P), ("error_size", C.c_size_t), ("no_twins", C.c_int)]


SHARE = C.CFUNCTYPE(C.c_int, P, P, C.c_uint32, P)
EXCHANGE = C.CFUNCTYPE(C.c_int, P, P, P, P, P)


class Transport(C.Structure):
    _fields_ = [("rank", C.c_uint32), ("size", C.c_uint32), ("ud", P), ("share", SHARE),
                ("exchange", EXCHANGE)]


class WorldOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("ranks", C.c_uint32), ("lnc", C.c_uint32),
                ("instance", C.c_char_p), ("machine", P), ("machines", P), ("threads", C.c_uint),
                ("algorithm", C.c_char_p), ("window", C.c_uint64), ("error", P),
                ("error_size", C.c_size_t), ("transport", C.POINTER(Transport))]


class Collective(C.Structure):
    _fields_ = [("op", C.c_char_p), ("algorithm", C.c_char_p), ("file", C.c_char_p),
                ("line", C.c_uint32), ("pc", C.c_uint32), ("core", C.c_uint32),
                ("ranks", C.c_uint32), ("engine", C.c_int), ("bytes", C.c_uint64),
                ("issued", C.c_uint64), ("end", C.c_uint64), ("algbw", C.c_double),
                ("busbw", C.c_double)]


class LinkRow(C.Structure):
    _fields_ = [("from", C.c_int), ("to", C.c_int), ("bytes", C.c_uint64),
                ("messages", C.c_uint64), ("waiting", C.c_uint64), ("busy", C.c_uint64),
                ("waited", C.c_uint64), ("rate", C.c_double), ("gbs", C.c_double),
                ("percent", C.c_double)]


class AssembleOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("include_dirs", C.POINTER(C.c_char_p)),
                ("ninclude_dirs", C.c_uint32), ("defines", C.POINTER(C.c_char_p)),
                ("ndefines", C.c_uint32), ("no_files", C.c_int), ("env", P)]


class TargetInfo(C.Structure):
    _fields_ = [("name", C.c_char_p)] + [(n, C.c_uint32) for n in (
        "generation", "cores", "sbuf_bytes", "psum_bytes", "dma_engines", "hypothetical", "zero")]


class TensorInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_int), ("role", C.c_int), ("ndim", C.c_uint32),
                ("shape", C.c_int64 * 8), ("bytes", C.c_uint64)]


def _candidates():
    here = os.path.dirname(os.path.abspath(__file__))
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


class Stat(C.Structure):
    _fields_ = [("name", C.c_char_p), ("script", C.c_char_p), ("unit", C.c_char_p),
                ("text", C.c_char_p), ("offset", C.c_uint32), ("bytes", C.c_uint32),
                ("elements", C.c_uint32)]


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


class Figures(C.Structure):
    _fields_ = [(n, C.c_double) for n in (
        "mfu hfu mbu intensity peak_flops ridge attainable_flops model_flops dma_active "
        "dma_average_bytes").split()] + [("active", C.c_double * 5),
                                         ("utilization", C.c_double * 5)]


class HbmStack(C.Structure):
    _fields_ = [("capacity", C.c_uint64), ("used", C.c_uint64)]


class HbmUsage(C.Structure):
    _fields_ = [("capacity", C.c_uint64), ("used", C.c_uint64), ("high_water", C.c_uint64),
                ("free", C.c_uint64), ("largest_free", C.c_uint64), ("blocks", C.c_uint32),
                ("free_blocks", C.c_uint32), ("stacks", C.c_uint32), ("stack", HbmStack * 8)]


class Fault(C.Structure):
    _fields_ = [("status", C.c_int), ("engine", C.c_int), ("dma_engine", C.c_int),
                ("pc", C.c_uint32), ("line", C.c_uint32), ("file", C.c_char_p),
                ("time", C.c_uint64), ("instruction", C.c_char_p), ("text", C.c_char_p)]


class Finding(C.Structure):
    _fields_ = [("check", C.c_int), ("engine", C.c_int), ("pc", C.c_uint32), ("line", C.c_uint32),
                ("file", C.c_char_p), ("time", C.c_uint64), ("text", C.c_char_p)]


class WorldFinding(C.Structure):
    _fields_ = [("first", Finding), ("ranks", C.POINTER(C.c_uint32)), ("nranks", C.c_uint32),
                ("number", C.c_uint32)]


class Place(C.Structure):
    _fields_ = [("engine", C.c_int), ("core", C.c_uint32), ("pc", C.c_uint32),
                ("line", C.c_uint32), ("file", C.c_char_p)]


class Schedules(C.Structure):
    _fields_ = [("verdict", C.c_int), ("states", C.c_uint64), ("engine", C.c_int),
                ("other_engine", C.c_int), ("pc", C.c_uint32), ("other_pc", C.c_uint32),
                ("text", C.c_char_p)]


class Unsignalled(C.Structure):
    _fields_ = [("tensor", C.c_char_p), ("core", C.c_uint32), ("other_core", C.c_uint32),
                ("other_file", C.c_char_p), ("other_line", C.c_uint32), ("fix", C.c_size_t),
                ("fix_end", C.c_size_t)]


class KernelOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("target", C.c_char_p), ("flags", C.c_uint32),
                ("sbuf_bytes", C.c_uint32), ("core", C.c_uint32), ("cores", C.c_uint32),
                ("optimize", C.c_uint32), ("front_end", C.c_char_p), ("without", C.c_uint32)]


class TileInfo(C.Structure):
    _fields_ = [("size", C.c_size_t), ("name", C.c_char_p), ("memory", C.c_int),
                ("dtype", C.c_int), ("ndim", C.c_uint32), ("shape", C.c_uint32 * 5),
                ("partition", C.c_int32), ("offset", C.c_int32), ("file", C.c_uint32),
                ("line", C.c_uint32), ("outside", C.c_uint32)]


class KernelRange(C.Structure):
    _fields_ = [("size", C.c_size_t), ("start", C.c_int32), ("stop", C.c_int32),
                ("step", C.c_int32), ("start_register", C.c_uint32),
                ("stop_register", C.c_uint32), ("file", C.c_uint32), ("line", C.c_uint32)]


class KernelPolicy(C.Structure):
    _fields_ = [("name", C.c_char_p), ("time", C.c_uint64), ("done", C.c_int), ("chosen", C.c_int)]


class KernelAdvice(C.Structure):
    _fields_ = [("kind", C.c_int), ("saved", C.c_uint64), ("instruction", C.c_char_p),
                ("line", C.c_uint32), ("file", C.c_char_p), ("name", C.c_char_p),
                ("times", C.c_uint32), ("engine", C.c_int), ("text", C.c_char_p)]


class KernelFigures(C.Structure):
    _fields_ = [(n, C.c_uint64) for n in (
        "instructions made nops dependences waits reuse_waits transfers queues semaphores tiles "
        "sbuf_bytes psum_bytes spills spilled_bytes").split()] + [
            ("busy", C.c_uint64 * 5), ("dma_busy", C.c_uint64), ("bound", C.c_int)] + [
                (n, C.c_uint64) for n in ("copies", "versions", "left_out",
                                           "trimmed", "moved")]


class Unwritten(C.Structure):
    _fields_ = [("buffer", C.c_uint32), ("text", C.c_char_p), ("file", C.c_char_p),
                ("line", C.c_uint32)]


class PathSegment(C.Structure):
    _fields_ = [("kind", C.c_int), ("engine", C.c_int), ("dma_engine", C.c_int),
                ("pc", C.c_uint32), ("line", C.c_uint32), ("core", C.c_uint),
                ("file", C.c_char_p), ("name", C.c_char_p), ("cause", C.c_char_p),
                ("start", C.c_uint64), ("end", C.c_uint64), ("queue", C.c_int),
                ("semaphore", C.c_int), ("queue_name", C.c_char_p),
                ("semaphore_name", C.c_char_p), ("rank", C.c_int)]


class IdleGap(C.Structure):
    _fields_ = [("kind", C.c_int), ("engine", C.c_int), ("start", C.c_uint64),
                ("end", C.c_uint64), ("waited", C.c_uint64), ("semaphore", C.c_int),
                ("late_engine", C.c_int), ("late_queue", C.c_int), ("reached", C.c_uint32),
                ("condition", C.c_char * 20), ("pc", C.c_uint32), ("line", C.c_uint32),
                ("late_pc", C.c_uint32), ("late_line", C.c_uint32), ("core", C.c_uint16),
                ("late_core", C.c_uint16)] + [(n, C.c_char_p) for n in (
                    "semaphore_name queue_name file late_file late_name").split()]


class ProgramTile(C.Structure):
    _fields_ = [("name", C.c_char_p), ("memory", C.c_int), ("dtype", C.c_int),
                ("ndim", C.c_uint32), ("shape", C.c_uint32 * 5), ("partition", C.c_uint32),
                ("offset", C.c_uint32), ("bytes", C.c_uint32)]


class Field(C.Structure):
    _fields_ = [("name", C.c_char_p), ("kind", C.c_int)] + [(n, C.c_uint32) for n in (
        "mode reads writes sbuf psum hbm column element dims most set").split()]


_str, _u32, _u64, _int, _size = C.c_char_p, C.c_uint32, C.c_uint64, C.c_int, C.c_size_t
_out = C.POINTER(P)
_PROTOTYPES = {
    "soma_version": (_str, []),
    "soma_status_text": (_str, [_int]),
    "soma_dtype_name": (_str, [_int]),
    "soma_dtype_size": (_size, [_int]),
    "soma_machine_new": (_int, [C.POINTER(Options), _out]),
    "soma_machine_free": (None, [P]),
    "soma_machine_clear": (_int, [P]),
    "soma_set_schedule": (_int, [P, C.c_uint64]),
    "soma_error": (_str, [P]),
    "soma_target": (_str, [P]),
    "soma_costs_print": (_int, [P, _str, _out, C.POINTER(_size)]),
    "soma_assemble": (_int, [P, _str, _size, _str, C.POINTER(AssembleOptions), _out, _out]),
    "soma_program_load": (_int, [P, P, _size, _out]),
    "soma_program_save": (_int, [P, P, _out, C.POINTER(_size)]),
    "soma_program_print": (_int, [P, P, _out, C.POINTER(_size)]),
    "soma_bytes_free": (None, [P]),
    "soma_program_free": (None, [P]),
    "soma_program_target": (_str, [P]),
    "soma_program_tensors": (_u32, [P]),
    "soma_program_tensor": (_int, [P, _u32, C.POINTER(TensorInfo)]),
    "soma_lint": (_int, [P, P, _out]),
    "soma_diagnostics_text": (_str, [P]),
    "soma_diagnostics_free": (None, [P]),
    "soma_bind": (_int, [P, P, _str, _int, _u32, C.POINTER(C.c_int64), P]),
    "soma_bind_rows": (_int, [P, P, _str, C.c_int64]),
    "soma_bind_tensor": (_int, [P, P, _str, P]),
    "soma_unbind": (None, [P, P]),
    "soma_tensor_new": (_int, [P, _int, _u32, C.POINTER(C.c_int64), _out]),
    "soma_tensor_free": (None, [P]),
    "soma_tensor_view": (_int, [P, _u64, _int, _u32, C.POINTER(C.c_int64), _out]),
    "soma_tensor_write": (_int, [P, P, _size]),
    "soma_tensor_read": (_int, [P, P, _size]),
    "soma_tensor_fill": (_int, [P, _u64, P, _size, _u64]),
    "soma_traffic": (None, [P, C.POINTER(_u64), C.POINTER(_u64)]),
    "soma_hbm_stats": (None, [P, C.POINTER(HbmUsage), _size]),
    "soma_move_to_device": (_int, [P, P]),
    "soma_run_start": (_int, [P, P, _out]),
    "soma_run_until": (_int, [P, _int, _int, _u64]),
    "soma_run_ended": (_int, [P]),
    "soma_run_hits": (_u32, [P]),
    "soma_run_hit": (_int, [P, _u32, P, _size]),
    "soma_run_snapshot": (_int, [P, P, _out]),
    "soma_run_return": (_int, [_out, P]),
    "soma_snapshot_free": (None, [P]),
    "soma_instruction_text": (_int, [P, C.c_uint, _int, _u32, _out, C.POINTER(_size)]),
    "soma_run_stop_add": (_int, [P, P, _size, C.POINTER(_u32)]),
    "soma_run_stop_remove": (_int, [P, _u32]),
    "soma_core_issue": (_int, [P, C.c_uint, _int]),
    "soma_core_engine": (_int, [P, C.c_uint, _int, P, _size]),
    "soma_core_transfer": (_int, [P, C.c_uint, _u32, P, _size]),
    "soma_write_waits": (_int, [P, WRITE, P]),
    "soma_program_instructions": (_u32, [P, C.c_uint, _int]),
    "soma_program_instruction": (_int, [P, C.c_uint, _int, _u32, P, _size]),
    "soma_program_semaphore_name": (_str, [P, C.c_uint, _u32]),
    "soma_program_queue_name": (_str, [P, C.c_uint, _u32]),
    "soma_run_save": (_int, [P, _out, C.POINTER(_size)]),
    "soma_run_resume": (_int, [P, P, _size, _out, _out]),
    "soma_run_log": (_int, [P, LOG, P]),
    "soma_write_logged": (_int, [P, P, _size, WRITE, P]),
    "soma_run_tensor": (_int, [P, _u32, C.POINTER(TensorInfo)]),
    "soma_fetch": (_int, [P, _str, P, _size]),
    "soma_take": (_int, [P, _str, _out]),
    "soma_result_data": (P, [P]),
    "soma_result_free": (None, [P]),
    "soma_run_free": (None, [P]),
    "soma_run_stats": (None, [P, C.POINTER(Stats), _size]),
    "soma_run_fault": (None, [P, C.POINTER(Fault)]),
    "soma_machine_target": (_int, [P, C.POINTER(TargetInfo), _size]),
    "soma_target_row": (_int, [_u32, C.POINTER(TargetInfo), _size]),
    "soma_check_name": (_str, [_int]),
    "soma_run_findings": (_u64, [P]),
    "soma_run_finding": (_int, [P, _u32, C.POINTER(Finding)]),
    "soma_run_finding_core": (C.c_uint, [P, _u32]),
    "soma_critical_path": (_int, [P, P, _u32, C.POINTER(_u32)]),
    "soma_idle_gaps": (_int, [P, P, P, _u32, C.POINTER(_u32)]),
    "soma_program_tiles": (_u32, [P]),
    "soma_program_tile": (_int, [P, _u32, C.POINTER(ProgramTile)]),
    "soma_core_memory_write": (_int, [P, C.c_uint, _int, _u32, _u64, P, _size]),
    "soma_core_semaphore_set": (_int, [P, C.c_uint, _u32, _u32]),
    "soma_core_register_set": (_int, [P, C.c_uint, _int, _u32, _u32]),
    "soma_core_memory_read": (_int, [P, C.c_uint, _int, _u32, _u64, P, _size]),
    "soma_core_semaphore_get": (_int, [P, C.c_uint, _u32, C.POINTER(_u32)]),
    "soma_core_register_get": (_int, [P, C.c_uint, _int, _u32, C.POINTER(_u32)]),
    "soma_program_core_semaphore": (_int, [P, C.c_uint, _str]),
    "soma_run_schedules": (_int, [P, C.POINTER(Schedules), _size]),
    "soma_recorder_new": (_int, [P, _out]),
    "soma_recorder_free": (None, [P]),
    "soma_recorder_clear": (None, [P]),
    "soma_recorder_links": (_int, [P, P]),
    "soma_recorder_collectives": (_int, [P, P, C.c_uint32]),
    "soma_recorder_stats": (None, [P, C.POINTER(Stats), _size]),
    "soma_write_chrome": (_int, [P, P, WRITE, P]),
    "soma_write_world_chrome": (_int, [P, P, C.c_uint32, WRITE, P]),
    "soma_write_timeline": (_int, [P, P, C.c_uint, WRITE, P]),
    "soma_write_page": (_int, [P, P, P, P, WRITE, P]),
    "soma_write_world_page": (_int, [P, P, P, P, P, WRITE, P]),
    "soma_write_explanation": (_int, [P, P, WRITE, P]),
    "soma_table_name": (_str, [_int]),
    "soma_write_table": (_int, [P, P, _int, _int, WRITE, P]),
    "soma_stats_figures": (None, [C.POINTER(Stats), C.POINTER(Figures), _size]),
}
# Of soma_world.h.
_PROTOTYPES.update({
    "soma_world_new": (_int, [C.POINTER(WorldOptions), _out]),
    "soma_world_free": (None, [P]),
    "soma_world_error": (_str, [P]),
    "soma_world_instance": (_str, [P]),
    "soma_world_load": (_int, [P, _u32, P]),
    "soma_world_start": (_int, [P]),
    "soma_world_until": (_int, [P, C.c_uint64]),
    "soma_world_step": (_int, [P, _int, _u32, C.c_uint, _int, C.c_uint64]),
    "soma_world_keep": (_int, [P, P, _out]),
    "soma_world_return": (_int, [P, P]),
    "soma_world_snapshot_free": (None, [P]),
    "soma_world_again": (_int, [P]),
    "soma_world_traffic": (None, [P, C.POINTER(C.c_uint64), C.POINTER(C.c_uint64)]),
    "soma_world_run": (P, [P, _u32]),
    "soma_world_program": (P, [P, _u32]),
    "soma_world_collectives": (_u32, [P, _u32]),
    "soma_world_findings": (_u32, [P]),
    "soma_world_finding_at": (_int, [P, _u32, C.POINTER(WorldFinding), C.c_size_t]),
    "soma_world_trust": (_str, [P]),
    "soma_world_links": (_u32, [P]),
    "soma_world_link": (_int, [P, _u32, C.POINTER(LinkRow)]),
    "soma_world_slow_link": (_int, [P, _int, _int, C.c_double, C.c_uint64]),
    "soma_world_delay_rank": (_int, [P, _u32, C.c_uint64]),
    "soma_world_collective": (_int, [P, _u32, _u32, C.POINTER(Collective)]),
    "soma_world_save": (_int, [P, _out, C.POINTER(_size)]),
    "soma_world_saved": (_int, [P, _size, C.POINTER(WorldOptions)]),
    "soma_world_saved_target": (_int, [P, _size, P, _size]),
    "soma_world_resume": (_int, [P, P, _size]),
    "soma_world_time": (C.c_uint64, [P]),
    "soma_world_hash": (C.c_uint64, [P]),
    "soma_program_cores": (C.c_uint, [P]),
})
# Of soma_kernel.h.
_KERNEL = {
    "soma_run_finding_other": (_int, [P, _u32, C.POINTER(Place), _size]),
    "soma_run_unsignalled": (_int, [P, _u32, C.POINTER(Unsignalled), _size]),
    "soma_kernel_new": (_int, [P, C.POINTER(KernelOptions), _out]),
    "soma_kernel_free": (None, [P]),
    "soma_kernel_error": (_str, [P]),
    "soma_kernel_error_place": (_str, [P, C.POINTER(_str), C.POINTER(_u32)]),
    "soma_kernel_file": (_int, [P, _str, C.POINTER(_u32)]),
    "soma_kernel_tensor": (_int, [P, _str, _int, _u32, C.POINTER(C.c_int64), _int,
                                  C.POINTER(_u32)]),
    "soma_kernel_constant": (_int, [P, _int, _u32, C.POINTER(C.c_int64), P, C.POINTER(_u32)]),
    "soma_kernel_tile": (_int, [P, C.POINTER(TileInfo), C.POINTER(_u32)]),
    "soma_kernel_queue": (_int, [P, _u32, _int, _u32, C.POINTER(_u32)]),
    "soma_kernel_group": (_int, [P, _u32, C.POINTER(_u32), C.POINTER(_u32), C.POINTER(_u32)]),
    "soma_kernel_register": (_int, [P, C.POINTER(_u32)]),
    "soma_kernel_emit": (_int, [P, P, _size, P]),
    "soma_kernel_count": (_u32, [P]),
    "soma_kernel_order": (_int, [P, _u32, _u32]),
    "soma_kernel_may_spill": (_int, [P]),
    "soma_kernel_loop": (_int, [P, C.POINTER(KernelRange), C.POINTER(_u32)]),
    "soma_kernel_while": (_int, [P, _u32, _u32, _u32]),
    "soma_kernel_endloop": (_int, [P]),
    "soma_kernel_finish": (_int, [P, _out, _out]),
    "soma_kernel_finish_pair": (_int, [P, P, _out, _out]),
    "soma_kernel_report": (_int, [P, WRITE, P]),
    "soma_kernel_get_unwritten": (_int, [P, _u32, C.POINTER(Unwritten)]),
    "soma_kernel_get_figures": (None, [P, C.POINTER(KernelFigures), _size]),
    "soma_kernel_get_policy": (_int, [P, _u32, C.POINTER(KernelPolicy), _size]),
    "soma_kernel_get_advice": (_int, [P, _u32, C.POINTER(KernelAdvice), _size]),
    "soma_opcode": (_int, [_str]),
    "soma_opcode_field": (_int, [_u32, _u32, C.POINTER(Field)]),
    "soma_field_value": (_str, [C.POINTER(Field), _u32]),
    "soma_field_kind_name": (_str, [_int]),
    "soma_is_word": (_int, [_str]),
}


for _name, (_result, _arguments) in list(_PROTOTYPES.items()) + list(_KERNEL.items()):
    _function = getattr(lib, _name, None)
    if _function is None:
        if _name in _KERNEL:
            continue
        raise ImportError("%s has no %s: it is of another version" % (lib._name, _name))
    _function.restype, _function.argtypes = _result, _arguments


# tile(handle, byref(info), byref(number)) is called for each tile. It takes ctypes' own values as
# they are, and does not let go of the interpreter's lock, which takes longer than the call.
tile = C.PyDLL(lib._name)["soma_kernel_tile"]


class PageOptions(C.Structure):
    _fields_ = [("size", C.c_size_t), ("title", C.c_char_p), ("source", SOURCE), ("source_ud", P)]


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
        return C.cast(C.c_char_p(self.data), P).value if text else None


class Logged(C.Structure):
    _fields_ = [("engine", C.c_int), ("pc", C.c_uint32), ("start", C.c_uint64),
                ("end", C.c_uint64), ("waited", C.c_uint64), ("reg", C.c_int),
                ("value", C.c_uint32), ("elements", C.c_uint64), ("nans", C.c_uint64),
                ("min", C.c_double), ("max", C.c_double), ("core", C.c_uint)]


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
