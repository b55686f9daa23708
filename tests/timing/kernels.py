"""Published times of unmodified kernels against simulated ones.

    build/soma-nki tests/timing/kernels.py FOLDER [PATTERN]

FOLDER has checkouts of the repositories named in the tables below; kernels of one that is missing
are left out, and a line says so. Each row: the published time and what it is (a whole execution as
nki.benchmark gives it, or total_time of a profile; both have a launch in them, by the clock's LAUNCH
and LAUNCH_TOTAL), the simulated run and that launch, and the error of their sum. Rows of one
operation of kda-for-trainium are compared with one another too; cores_of says why most of its times
are half of what documented peaks allow.

No constant of the clock was made from these. Seven of AccelOpt's fourteen kernels, and mamba, rope
and bmm of kda-for-trainium, are kept out of this list, so that they can judge it.
"""
import csv
import ctypes
import importlib.util
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

import nki
import soma
from soma import lib as L

DGE_OFF = "--disable-dge --logical-nc-config=1"
TOTAL, NCL = "total_time", "NCL"  # of a profile; of nki.benchmark's table


class Missing(Exception):
    """A checkout that FOLDER does not have."""


def load(path, changes=()):
    """A module from a file; changes: (old, new) in its text, such as a constant that a text says
    to vary."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for old, new in changes:
        if not re.search(old, text):
            raise ValueError("%s has no %r" % (path, old))
        text = re.sub(old, new, text)
    with tempfile.NamedTemporaryFile("w", suffix=".py", dir=os.path.dirname(path) or ".",
                                     delete=False) as f:
        f.write(text)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    before = set(sys.modules)
    try:
        spec = importlib.util.spec_from_file_location("timed", f.name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        os.unlink(f.name)
        del sys.path[0]
        for name in set(sys.modules) - before:  # another checkout has modules of the same names
            if not name.startswith(("nki", "neuronxcc", "soma", "numpy")):
                del sys.modules[name]


def checkout(folder, name):
    path = os.path.join(folder, name)
    if not os.path.isdir(path):
        raise Missing(name)
    return path


def of_history(folder, name, revision, path):
    """A file of an older revision, as a file in a folder of its own."""
    text = subprocess.run(["git", "-C", checkout(folder, name), "show", revision + ":" + path],
                          capture_output=True, check=True).stdout
    place = tempfile.mkdtemp()
    with open(os.path.join(place, os.path.basename(path)), "wb") as f:
        f.write(text)
    return os.path.join(place, os.path.basename(path))


def launch_of(what, target):
    """What a launch takes in a published time, in microseconds."""
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    L.lib.soma_costs_print(soma.Machine(target).handle, None, ctypes.byref(text), ctypes.byref(size))
    rows = [line.split() for line in L.take_bytes(text, size).decode().splitlines()]
    name = "LAUNCH" if what == NCL else "LAUNCH_TOTAL"
    return next(float(row[1]) for row in rows if row and row[0] == name) / 1e3


def run_of(kernel, args, target, options="", **kwargs):
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = target
    timed = nki.baremetal(kernel, additional_compile_opt=options) if hasattr(nki, "baremetal") \
        else kernel
    timed = getattr(timed, "kernel", timed)
    return timed._launch(args, kwargs, timing_only=True)


def time_of(*args, **kwargs):
    """Microseconds of the run."""
    return run_of(*args, **kwargs).time_us


# ---- Tutorials of the SDK, as they were when they were measured (neuronxcc, trn1) ----

EDITION = "4eba310f"


def _matmul(folder, name, dtype):
    module = load(of_history(folder, "aws-neuron-sdk", EDITION, "general/nki/examples/"
                             "matrix_multiplication/matrix_multiplication_nki_kernels.py"))
    return getattr(module, name), [np.zeros((8192, 4096), dtype), np.zeros((8192, 8192), dtype)]


def _mamba(folder, name, channels, length):
    module = load(of_history(folder, "aws-neuron-sdk", EDITION, "general/nki/examples/"
                             "fused_mamba/mamba_nki_kernels.py"))
    f = np.float32
    return getattr(module, name), [
        np.zeros((1, channels, length), f), np.zeros((1, channels, length), f),
        np.zeros((channels, 16), f), np.zeros((1, 16, length), f), np.zeros((1, 16, length), f)]


def tutorials(folder):
    """Rows (name, target, published us, what it is, make)."""
    bf16 = nki.language.bfloat16.numpy if hasattr(nki.language.bfloat16, "numpy") else np.float16
    text = "text of the tutorial"
    for name, target, dtype, us in (
            ("nki_matmul_tiled_", "trn1", bf16, 51800),
            ("nki_matmul_hoist_load_", "trn1", bf16, 42960),
            ("nki_matmul_block_free_dimension_", "trn1", bf16, 22070),
            ("nki_matmul_fully_optimized_", "trn1", bf16, 6970),
            ("nki_matmul_tiled_", "trn2", np.float32, 39890),
            ("nki_matmul_hoist_load_", "trn2", np.float32, 28200)):
        yield name.strip("_"), target, us, text, lambda n=name, d=dtype: _matmul(folder, n, d)
    for name, channels, length, us in (("mamba_v1", 256, 512, 172.93),
                                       ("mamba_v1", 4096, 512, 2340),
                                       ("mamba_v2", 4096, 512, 1610),
                                       ("mamba_v2", 4096, 8192, 53330),
                                       ("mamba_v3", 4096, 8192, 27800)):
        yield "%s %d x %d" % (name, channels, length), "trn1", us, text, \
            lambda n=name, c=channels, s=length: _mamba(folder, n, c, s)


# ---- Students' solutions of stanford-cs149/asst4-trainium2 and of the year before ----

def _student(folder, names, part, file, kernel, changes=()):
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            return getattr(load(os.path.join(path, part, file), changes), kernel)
    raise Missing(names[0])


def _vectors(n):
    return [np.zeros(n, np.float32), np.zeros(n, np.float32)]


def _images(dtype, height=224):
    return [np.zeros((1, 256, height, height), dtype), np.zeros((256, 256, 3, 3), dtype),
            np.zeros(256, dtype)]


CHEN = ("chenhzhu-asst4-trainium2",)
RISHI = ("rishic3-asst4-trainium2",)
XAVIER = ("xaviergonzalez-asst4-trainium2",)
ROBERT = ("robertpare17-asst4-trainium",)


def students(folder):
    def row(who, name, us, what, part, file, kernel, args, changes=(), target="trn2", options="",
            **kwargs):
        return ("%s: %s" % (who[0].split("-")[0], name), target, us, what, lambda: (
            _student(folder, who, part, file, kernel, changes), args(), kwargs), options)

    def free(n):
        return [(r"FREE_DIM = \d+", "FREE_DIM = %d" % n)]

    def rows(n):
        return [(r"ROW_CHUNK = \d+", "ROW_CHUNK = %d" % n)]
    for who, times in ((CHEN, (26.42, 28.90, 46.47)), (RISHI, (27.86, 28.36, 46.85)),
                       (XAVIER, (26, 28, 86))):
        for n, us in ((1000, times[0]), (2000, times[1])):  # by neuron-profile
            yield row(who, "vector add 256000, FREE_DIM=%d" % n, us, TOTAL, "part1", "kernels.py",
                      "vector_add_stream", lambda: _vectors(256000), free(n),
                      options="--disable-dge")
        yield row(who, "transpose 1024", times[2], NCL if who is XAVIER else TOTAL, "part1",
                  "kernels.py", "matrix_transpose", lambda: [np.zeros((1024, 1024), np.float32)],
                  options="" if who is XAVIER else "--disable-dge")
    for n, us in ((1, 37318), (128, 378)):
        yield row(XAVIER, "vector add 25600, ROW_CHUNK=%d" % n, us, NCL, "part1", "kernels.py",
                  "vector_add_tiled", lambda: _vectors(25600), rows(n))
    for n, us in ((2, 186), (200, 15)):
        yield row(XAVIER, "vector add 25600, FREE_DIM=%d" % n, us, NCL, "part1", "kernels.py",
                  "vector_add_stream", lambda: _vectors(25600), free(n))
    for n, us in ((1, 27404), (128, 206)):
        yield row(ROBERT, "vector add 25600, ROW_CHUNK=%d" % n, us, NCL, "part1", "kernels.py",
                  "vector_add_tiled", lambda: _vectors(25600), rows(n), target="trn1")
    for n, us in ((2, 53), (200, 19)):
        yield row(ROBERT, "vector add 25600, FREE_DIM=%d" % n, us, NCL, "part1", "kernels.py",
                  "vector_add_stream", lambda: _vectors(25600), free(n), target="trn1")
    for n, us, what in ((1000, 30, NCL), (2000, 34, TOTAL)):
        yield row(ROBERT, "vector add 256000, FREE_DIM=%d" % n, us, what, "part1", "kernels.py",
                  "vector_add_stream", lambda: _vectors(256000), free(n), target="trn1")
    for who, target, table in ((XAVIER, "trn2", (3832, 824, 3830, 825)),
                               (ROBERT, "trn1", (3681, 1060, 3741, 1275))):
        for (dtype, pool), us in zip(((np.float32, 1), (np.float16, 1), (np.float32, 2),
                                      (np.float16, 2)), table):
            yield row(who, "conv2d %s, pool %d" % (dtype.__name__, pool), us, NCL, "part2",
                      "conv2d.py", "fused_conv2d_maxpool", lambda d=dtype: _images(d),
                      target=target, options="" if who is ROBERT else "--disable-dge",
                      pool_size=pool)


# ---- zhang677/AccelOpt: its fourteen kernels on trn1, seven of them here ----

ACCELOPT = ("adamw", "add_rmsnorm_matmul", "matmul_add_rmsnorm", "rope_single_freq_apply", "bmm",
            "mamba", "transpose_matmul")


def _bench(root, kernel, reference):
    task = load(os.path.join(root, reference))
    inputs = task.transform_to_nki_inputs([np.zeros_like(x) for x in task.get_inputs()])
    module = load(kernel)
    return getattr(module, "kernel", None) or module.optimized_kernel, inputs


def accelopt(folder):
    root = checkout(folder, "AccelOpt")
    with open(os.path.join(root, "experiments", "full_complete_local", "profile_results.csv")) as f:
        for row in csv.DictReader(f):
            if row["problem"] not in ACCELOPT:
                continue
            files = [re.sub(r".*NKIBench/\./", "NKIBench/", row[n]) for n in ("kernel", "task")]
            yield row["problem"], "trn1", json.loads(row["profile"])["latency"] * 1e3, TOTAL, \
                lambda a=files: _bench(root, os.path.join(root, a[0]), a[1]), DGE_OFF


# ---- Jerry2423/kda-for-trainium: variants of these kernels on trn2 ----

KDA = ("adamw", "add_rmsnorm_matmul", "matmul_add_rmsnorm", "transpose_matmul", "silu", "gqa_full",
       "rmsnorm_matmul", "bmm_softmax", "swiglu", "lora", "matmul")


COUNTED = {"tensor": r"\bPE(?:_active_ms=0\.|=| (?:\d+->)+)(\d+)[%*]",
           "vector": r"\bVec(?:tor)?(?: saturated |=| (?:\d+->)+)(\d+)%",
           "scalar": r"\bScl(?:=| (?:\d+->)+)(\d+)%"}


def cores_of(us, notes, run):
    """How many cores shared the work that was measured. The notes say for how much of the time
    engines were active: half of what one core needs for all the work is two cores. So are those
    without counters, since nearly all that have them are. The tensor engine counts as active while
    it waits, so that alone it says nothing."""
    if re.search(r"matmul_instruction_count \d+->\d+ \(2\.0x\)", notes):
        return 1  # each of two cores did all of it
    shares = {}
    for engine, pattern in COUNTED.items():
        found, busy = re.search(pattern, notes), run.stats.engines[engine]["busy_ns"] / 1e3
        if found and busy:
            shares[engine] = int(found[1]) / 100 * us / busy
    return 1 if shares.keys() - {"tensor"} and min(shares.values()) > 0.75 else 2


def kda(folder):
    """(operation, [(variant, published us, make, notes)])."""
    root, bench = checkout(folder, "kda-for-trainium"), checkout(folder, "AccelOpt")
    references = {os.path.basename(p).split("_M")[0].split("_B")[0]: os.path.join("NKIBench",
                  "reference", p) for p in os.listdir(os.path.join(bench, "NKIBench", "reference"))}
    for op in KDA:
        seen = {}
        with open(os.path.join(root, "workspaces", op, "benchmark.csv")) as f:
            for row in csv.DictReader(f):
                path = os.path.join(root, "workspaces", op, row["candidate"])
                if row["passed"] == "true" and row["latency_ms"] and os.path.exists(path):
                    notes = row["notes"] + seen.get(row["candidate"], ("",))[-1]
                    seen[row["candidate"]] = (float(row["latency_ms"]) * 1e3, path, notes)
        yield op, [(os.path.basename(c), us, lambda p=path: _bench(bench, p, references[op]), notes)
                   for c, (us, path, notes) in seen.items()]


# ---- The tables ----

def shorter(error):
    return re.sub(r"\s+", " ", "%s: %s" % (type(error).__name__, error))[:110]


def absolute(title, rows, pattern):
    """Prints a table; the errors in percent."""
    print("\n%-52s %-5s %11s %-21s %11s %9s %8s" % (
        title, "", "published", "", "run us", "launch us", "error %"))
    errors = []
    for name, target, us, what, make, *options in rows:
        if not re.search(pattern, name):
            continue
        try:
            kernel, args, *kwargs = make()
            run = time_of(kernel, args, target, *options, **(kwargs[0] if kwargs else {}))
            launch = launch_of(what, target)
        except Exception as error:  # a kernel that does not run is a row too
            print("%-52s %-5s %11.2f %-21s %s" % (name, target, us, what, shorter(error)))
            continue
        errors.append(100 * ((run + launch) / us - 1))
        print("%-52s %-5s %11.2f %-21s %11.2f %9.2f %+8.1f" % (name, target, us, what, run, launch,
                                                              errors[-1]))
        sys.stdout.flush()
    if errors:
        print("%-52s median error %.1f %%, worst %+.1f %%" % (
            title, statistics.median(map(abs, errors)), max(errors, key=abs)))
    return errors


def ordered(folder, pattern):
    """Pairs of variants of one operation that differ by 5 % or more: is the faster one faster
    here? The published times are those of one core: what was measured, times the cores."""
    print("\n%-52s %11s %5s %11s %8s" % ("kda-for-trainium, pairs of variants", "published",
                                          "cores", "run us", "error %"))
    right, pairs, errors = 0, 0, []
    for op, variants in kda(folder):
        if not re.search(pattern, op):
            continue
        times = []
        for name, us, make, notes in variants:
            try:
                run = run_of(*make(), "trn2", DGE_OFF)
            except Exception as error:
                print("  %-50s %11.2f %s" % (name, us, shorter(error)))
                continue
            cores = cores_of(us, notes, run)
            times.append((us * cores, run.time_us))
            errors.append(100 * (run.time_us / times[-1][0] - 1))
            print("  %-50s %11.2f %5d %11.2f %+8.1f" % (name, us, cores, run.time_us, errors[-1]))
            sys.stdout.flush()
        good = total = 0
        for (a, ours), (b, theirs) in itertools.combinations(times, 2):
            if max(a, b) >= 1.05 * min(a, b):
                total += 1
                good += (a < b) == (ours < theirs)
        right, pairs = right + good, pairs + total
        print("%-52s %d of %d pairs in order" % (op, good, total))
    if errors:
        print("%-52s %d of %d pairs in order, %.0f %%; median error %.1f %%, worst %+.1f %%" % (
            "all", right, pairs, 100 * right / max(pairs, 1), statistics.median(map(abs, errors)),
            max(errors, key=abs)))


def main(words):
    if len(words) not in (1, 2) or not os.path.isdir(words[0]):
        sys.stderr.write(__doc__)
        return 2
    folder, pattern = words[0], words[1] if len(words) > 1 else ""
    everything = []
    for title, rows in (("SDK tutorials", tutorials), ("students", students),
                        ("AccelOpt, seven kernels", accelopt)):
        try:
            everything += absolute(title, rows(folder), pattern)
        except Missing as missing:
            print("%s: no checkout %s in %s" % (title, missing, folder))
    if everything:
        print("\n%-52s median error %.1f %%, worst %+.1f %%, %d rows" % (
            "all", statistics.median(map(abs, everything)), max(everything, key=abs),
            len(everything)))
    try:
        ordered(folder, pattern)
    except Missing as missing:
        print("kda-for-trainium: no checkout %s in %s" % (missing, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
