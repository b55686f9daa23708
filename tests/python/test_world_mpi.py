"""Worlds of soma-nki --mpi: whatever one process prints and writes, for any number of processes;
processes that do not do the same, fail, or are killed. Each job is killed after 60 s."""
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
ENVIRONMENT = dict(os.environ, SOMA_PYTHON=sys.executable, OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

HEAD = """
import os, sys
import numpy as np
import nki, nki.collectives as ncc, nki.isa as nisa, nki.language as nl, soma
from nki.collectives import ReplicaGroup

process = soma.share.rank()

@nki.jit
def total(x, group, times=1):
    a = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=a, src=x)
    for _ in range(times):
        b = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
        ncc.all_reduce(dsts=[b], srcs=[a], replica_group=group, op=nl.add)
        a = b
    nisa.dma_copy(dst=y, src=a)
    return y

def world(n, **options):
    return soma.world(ranks=n, max_time=10**15, **options)

def on(n, seed=1, **more):
    x = np.random.default_rng(seed).random((n, 128, 32), np.float32)
    return lambda rank: dict(x=x[rank], group=ReplicaGroup([list(range(n))]), **more)
"""

# All that can be asked of worlds of several kinds; `spread`: whether processes shared the work.
ALL = HEAD + """
def show(run, spread):
    many = int(os.environ.get("OMPI_COMM_WORLD_SIZE", 1)) > 1
    assert (run.transport is not None) == (many and spread), run.transport
    print(run, run.hash, run.time_ns)
    for rank in range(len(run)):
        print(rank, run[rank].result.tobytes().hex()[:64], run[rank].result.sum())
        print(run.stats[rank].instructions, run.stats[rank].dma_bytes)
        print(run[rank].fetch("x").sum() if hasattr(run[rank], "fetch") else "")
    print(*run.collectives, *run.links, *run.findings, sep="\\n")

w = world(8, algorithm="ring")
show(w.run(total, on(8)), True)
show(w.run(total, on(8, 2)), True)
show(world(32, threads=2, algorithm="mesh").run(total, on(32)), True)
recorded = world(4, record=True).run(total, on(4))
show(recorded, False)
recorded[2].page("page.html")
soma.files.write("trace.json", recorded.trace().encode())
print(recorded.timeline(60))
checked = world(4, checks="all").run(total, on(4))
show(checked, False)
saved = world(4).run(total, on(4), save=(9000, "saved.world"))
show(saved, False)
again = soma.load_world("saved.world")
assert again.hash == saved.hash and again.time_ns == saved.time_ns
print(again[1].out)
"""

BOTH = HEAD + """
def one(n):
    print("variant", n)
    run = world(4).run(total, on(4, n))
    assert run.transport is None
    return {"sum": float(run[3].result.sum()), "time_us": run.time_us}
print(world(4).run(total, on(4)).hash)
found = soma.sweep(one, over={"n": range(5)}, jobs=1)
print(found, found.check())
found.csv("found.csv")
print(world(4).run(total, on(4, int(found.rows[2]["sum"]))).hash)
print(soma.sweep(one, over={"n": [7]}, jobs=1))
"""


def job(n, folder, *arguments, worlds=True):
    command = ["mpirun", "--oversubscribe", "-n", str(n), COMMAND, *["--mpi"] * worlds, *arguments]
    return subprocess.run(command if n else [COMMAND, *arguments], cwd=folder, timeout=60,
                          env=ENVIRONMENT, capture_output=True, text=True)


def contents(folder):
    return {p.name: p.read_bytes() for p in pathlib.Path(folder).iterdir()}


@unittest.skipUnless(shutil.which("mpirun") and importlib.util.find_spec("mpi4py"),
                     "python3-mpi4py or openmpi-bin is not installed")
class Jobs(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name

    def script(self, text):
        path = os.path.join(self.root, "script.py")
        with open(path, "w") as f:
            f.write(text)
        return path

    def folder(self, name):
        path = os.path.join(self.root, name)
        os.mkdir(path)
        return path

    def same(self, text, processes):
        """Jobs print, write and say what one process without MPI does."""
        path, alone = self.script(text), self.folder("alone")
        want = job(0, alone, path)
        for n in processes:
            folder = self.folder("of %d" % n)
            found = job(n, folder, path)
            self.assertEqual(found.returncode, want.returncode, found.stderr)
            self.assertEqual(found.stdout, want.stdout)
            self.assertEqual(contents(folder), contents(alone))
        return want, found

    def test_whatever_one_process_prints_and_writes(self):
        want, _ = self.same(ALL, [1, 2, 4])
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertEqual(sorted(contents(os.path.join(self.root, "of 4"))),
                         ["page.html", "saved.world", "trace.json"])

    def test_sweeps_and_worlds_in_one_script(self):
        want, _ = self.same(BOTH, [3])
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertIn("variant 4", want.stdout)

    def test_a_world_that_waits_for_ever_is_reported_as_of_one_process(self):
        text = HEAD + """
text = '''target trn2
g group [[0, 1, 2, 3]]
x tensor float32[64], input
y tensor float32[64], output
done sem
section gpsimd
all_reduce dsts=[y], srcs=[x], group=g, op=add $done++
nop $done>=%d
halt
'''
m = soma.Machine("trn2")
programs = [m.assemble(text % (2 if rank == 2 else 1), "prog.s") for rank in range(4)]
world(4).run(programs, {"x": np.ones(64, np.float32)})
"""
        want, found = self.same(text, [2])
        self.assertEqual(want.returncode, 1)
        self.assertIn("rank 2", want.stderr)
        self.assertIn(want.stderr.split("DeadlockError: ")[-1].strip(), found.stderr)
        self.assertIn("soma-nki: process 0 of 2: DeadlockError: ", found.stderr)

    def ends(self, text, pattern, status=1, worlds=True):
        """A job of two ends soon, with that text, and has printed and written nothing."""
        folder, path = self.folder("work%d" % len(os.listdir(self.root))), self.script(HEAD + text)
        began = time.monotonic()
        found = job(2, folder, path, worlds=worlds)
        self.assertEqual(found.returncode, status, found.stderr)
        self.assertLess(time.monotonic() - began, 30)
        if pattern:
            self.assertRegex(found.stderr, pattern)
        self.assertEqual((found.stdout, contents(folder)), ("", {}))

    def test_an_error_names_its_process_and_rank(self):
        self.ends("if process == 1: raise ValueError('only here')\n"
                  "world(4).run(total, on(4))[0].page('page.html')\n",
                  "soma-nki: process 1 of 2: ValueError: only here")
        self.ends("good = on(4)\n"
                  "world(4).run(total, lambda r: 1 / 0 if process + r == 4 else good(r))\n"
                  "print('done')\n",
                  r"process 1 of 2: ZeroDivisionError: division by zero \(for rank 3 of the world")

    def test_a_sweep_to_which_a_process_does_not_come(self):
        sweep = "print(soma.sweep(lambda n: {'a': n}, over={'n': range(4)}, jobs=1))\n"
        for worlds in True, False:
            for other in 0, 1:
                self.ends("if process == %d: sys.exit(0)\n" % other + sweep,
                          "soma-nki: process %d of 2: process %d has ended its script, but this "
                          "one runs a sweep" % (1 - other, other), worlds=worlds)
            self.ends("if process == 1: raise ValueError('only here')\n" + sweep,
                      "ValueError: only here", worlds=worlds)

    def test_statuses_and_messages_of_exits(self):
        self.ends("sys.exit(7)\n", None, 7)
        self.ends("sys.exit('no good')\n", "process 0 of 2: no good\n")

    def test_processes_that_do_not_do_the_same(self):
        self.ends("print(world(4).run(total, on(4, times=1 + process)))\n",
                  "process 1 of 2 has a different world from process 0: a script must give")
        self.ends("print(world(4).run(total, on(4, seed=process)))\n",
                  "process 1 of 2 has different inputs from process 0: .* need a seed")
        self.ends("if process == 1: sys.exit(0)\nprint(world(4).run(total, on(4)))\n",
                  "process 0 of 2: process 1 has ended its script, but this one runs a world")
        self.ends("if process == 0: sys.exit(0)\nprint(world(4).run(total, on(4)))\n",
                  "process 1 of 2: process 0 has ended its script, but this one runs a world")

    def test_a_killed_process_ends_all_within_5_s(self):
        path = self.script(HEAD + """
if process == 1:
    print(os.getpid(), file=open(%r, "w", buffering=1))
text = '''target trn2
g group [[0, 1, 2, 3]]
x tensor float32[64], input
y tensor float32[64], output
done sem
section gpsimd
mov r1, 2000000
again: all_reduce dsts=[y], srcs=[x], group=g, op=add $done++
event_semaphore $done>=1 $done--
sub r1, r1, 1
bne r1, 0, again
halt
'''
w = soma.world(ranks=4, max_time=10**17)
run = w.run(soma.Machine("trn2").assemble(text), {"x": np.ones(64, np.float32)})
print("done")
soma.files.write("done.npy", run[0].out["y"].tobytes())
""" % os.path.join(self.root, "pid"))
        folder, pid = self.folder("work"), pathlib.Path(self.root, "pid")
        command = ["timeout", "60", "mpirun", "--oversubscribe", "-n", "2", COMMAND, "--mpi", path]
        with subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as child:
            for _ in range(300):
                if pid.exists() and re.fullmatch(r"\d+\n", pid.read_text()):
                    break
                time.sleep(0.1)
            time.sleep(1)
            self.assertIsNone(child.poll())
            os.kill(int(pid.read_text()), signal.SIGKILL)
            began = time.monotonic()
            said = child.communicate()[0]
            self.assertLess(time.monotonic() - began, 5)
            self.assertNotEqual(child.returncode, 0)
        self.assertNotIn("done", said)
        self.assertEqual(contents(folder), {})

    def test_what_does_not_go_together(self):
        for words, text in (((), "--mpi needs a script"), (("-n", "2", "x.py"), "neither -n nor")):
            found = subprocess.run([COMMAND, "--mpi", *words], capture_output=True, text=True)
            self.assertEqual(found.returncode, 2)
            self.assertIn(text, found.stderr)


if __name__ == "__main__":
    unittest.main()
