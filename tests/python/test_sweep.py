"""Sweeps, journals, the decorator autotune, and a sweep over the processes of an MPI job."""
import contextlib
import importlib.util
import io
import os
import pathlib
import random
import shutil
import signal
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import nki
import nki.language as nl
import soma

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
X = np.random.default_rng(3).random((256, 512), np.float32)


@nki.jit
def scale(x, rows=128, columns=512):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, x.shape[0], rows):
        for c in range(0, x.shape[1], columns):
            nl.store(y[r:r + rows, c:c + columns], nl.load(x[r:r + rows, c:c + columns]) * 2)
    return y


def quietly(function, *args, **kwargs):
    """(what a function returns, what it printed)."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        found = function(*args, **kwargs)
    return found, said.getvalue()


class Sweeps(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.scratch.name, "journal.jsonl")

    def tearDown(self):
        self.scratch.cleanup()

    def test_rows_in_the_order_of_the_variants(self):
        def one(a, b):
            print("at", a, b)
            return scale.run(X, rows=b), {"sum": a * b, "name": "a,b"}
        found, said = quietly(soma.sweep, one, over={"a": [2, 1], "b": [64, 128]}, jobs=3)
        self.assertEqual([(r["a"], r["b"], r["sum"]) for r in found.rows],
                         [(2, 64, 128), (2, 128, 256), (1, 64, 64), (1, 128, 128)])
        self.assertEqual(said, "at 2 64\nat 2 128\nat 1 64\nat 1 128\n")
        self.assertEqual(found.parameters, ["a", "b"])
        run = scale.run(X, rows=64)
        self.assertEqual(found.rows[0]["time_us"], run.time_us)
        self.assertEqual(found.rows[0]["dma_bytes"], 2 * X.nbytes)
        self.assertAlmostEqual(found.rows[0]["vector_busy"],
                               100 * run.figures["active"]["vector"], 6)
        self.assertIn('"a,b"', found.csv())
        self.assertEqual(found.best()["b"], 128)
        self.assertEqual(found.best("sum")["sum"], 64)
        self.assertEqual(found.table()["b"].tolist(), [64, 128, 64, 128])

    def test_runs_of_two_cores_and_of_a_world(self):
        world = soma.world(ranks=2)
        found = soma.sweep(lambda n: world.run(scale, dict(x=X)) if n else scale[2].run(X),
                           over={"n": range(2)}).check()
        run = scale[2].run(X)
        self.assertGreater(run.stats.engines["vector"]["busy_ns"], 0)
        self.assertAlmostEqual(found.rows[0]["vector_busy"],
                               100 * run.figures["active"]["vector"], 6)
        self.assertAlmostEqual(found.rows[0]["dma_busy"],
                               100 * run.stats.dma_busy / 1e6 / run.time_ns / 32, 6)
        self.assertEqual(found.rows[1], {"n": 1, "time_us": world.run(scale, dict(x=X)).time_us})

    def test_what_fails_says_so_and_the_others_go_on(self):
        def one(n):
            if n == 1:
                raise ValueError("no")
            if n == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            if n == 3:
                return object()
            return n * n if n < 5 else scale.run(X, rows=256)
        found = soma.sweep(one, over={"n": range(6)}, jobs=2)
        faults = [r.get("fault") for r in found.rows]
        self.assertEqual((faults[0], faults[4], found.rows[4]["value"]), (None, None, 16))
        self.assertEqual(faults[1], "ValueError: no")
        self.assertEqual(faults[2], "its process was ended by signal 9")
        self.assertIn("a value of a row is a number", faults[3])
        self.assertRegex(faults[5], r"test_sweep.py:\d+: nl.load of \[256, 512\]")
        self.assertEqual(repr(found), "<sweep of 6 variants, 4 failed>")
        self.assertEqual(str(found).splitlines()[0], "n  value  fault")
        with self.assertRaisesRegex(soma.SomaError, "^n=1: ValueError: no$"):
            found.check()
        with self.assertRaisesRegex(soma.SomaError, "no variant has a value of time_us"):
            found.best()

    def test_an_interrupted_sweep_goes_on(self):
        marks = os.path.join(self.scratch.name, "marks")

        def one(n):
            with open(marks, "a") as f:
                f.write("%d " % n)
            print("n", n)
            return {"square": n * n}
        whole, said = quietly(soma.sweep, one, over={"n": range(4)}, jobs=1, journal=self.path)
        lines = pathlib.Path(self.path).read_text().splitlines(True)
        self.assertEqual(len(lines), 5)
        pathlib.Path(self.path).write_text("".join(lines[:3]) + lines[3][:10])
        os.unlink(marks)
        again, said_again = quietly(soma.sweep, one, over={"n": range(4)}, jobs=1,
                                    journal=self.path)
        self.assertEqual((again.rows, said_again), (whole.rows, said))
        self.assertEqual(pathlib.Path(marks).read_text(), "2 3 ")
        with self.assertRaisesRegex(soma.SomaError, "is the journal of another sweep"):
            soma.sweep(one, over={"n": range(5)}, journal=self.path)
        self.assertRegex(lines[1], r'"sum": "[0-9a-f]{16}"}$')
        pathlib.Path(self.path).write_text(lines[0] + "{]\n")
        with self.assertRaisesRegex(soma.SomaError, ":2: the line is damaged, or no journal's: its "
                                    "sum is not that of its text; delete the line, and its"):
            soma.sweep(one, over={"n": range(4)}, journal=self.path)

    def test_a_damaged_journal_gives_no_other_values(self):
        def one(n):
            return {"square": n * n, "third": n / 3}
        whole = quietly(soma.sweep, one, over={"n": range(9)}, jobs=1, journal=self.path)[0]
        text, rnd, refused = pathlib.Path(self.path).read_bytes(), random.Random(1), 0
        for _ in range(200):
            at, damaged = rnd.randrange(len(text)), bytearray(text)
            how = rnd.randrange(4)
            if how == 0:
                damaged[at] = rnd.randrange(256)
            elif how == 1:
                del damaged[at:at + rnd.randrange(1, 80)]
            elif how == 2:
                damaged[at:at] = text[rnd.randrange(len(text)):][:rnd.randrange(1, 80)]
            else:
                damaged[at:at + 1] = b"%d" % rnd.randrange(10)
            pathlib.Path(self.path).write_bytes(damaged)
            try:
                again = quietly(soma.sweep, one, over={"n": range(9)}, jobs=1, journal=self.path)[0]
            except soma.SomaError:
                refused += 1
            else:
                self.assertEqual(again.rows, whole.rows)
        self.assertGreater(refused, 120)

    def test_ctrl_c_stays_ctrl_c_at_any_moment(self):
        def work():
            quietly(soma.sweep, lambda n: n, over={"n": range(6)}, jobs=2)
            scale.check(X[:128], rows=64, schedules=2)
        before, hits = signal.signal(signal.SIGALRM, signal.default_int_handler), 0
        try:
            work()
            for i in range(60):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0007 * i)
                    work()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:  # and nothing else
                    hits += 1
            self.assertTrue((scale(X[:128], rows=64) == 2 * X[:128]).all())
            with self.assertRaises(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)  # no process is left
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(hits, 5)

    def test_what_is_refused(self):
        for text, options in (("takes over=", {}), ("takes over=", {"over": {}, "variants": []}),
                              ("parameters are numbers", {"over": {"a": [[1]]}})):
            with self.assertRaisesRegex(TypeError, text):
                soma.sweep(len, **options)
        with self.assertRaisesRegex(ValueError, "jobs=0: it must be 1 to 256"):
            soma.sweep(len, over={"a": [1]}, jobs=0)

    def test_over_the_processes_of_an_mpi_job(self):
        if not shutil.which("mpirun") or not importlib.util.find_spec("mpi4py"):
            raise unittest.SkipTest("python3-mpi4py or openmpi-bin is not installed")
        script = os.path.join(self.scratch.name, "script.py")
        with open(script, "w") as f:
            f.write("import os, soma\n"
                    "def one(n):\n"
                    "    print('n', n)\n"
                    "    return {'square': n * n, 'by': int(os.environ['OMPI_COMM_WORLD_RANK'])}\n"
                    "found = soma.sweep(one, over={'n': range(9)}, journal=%r)\n"
                    "found.csv(%r)\n"
                    "if soma.share.rank() == 2:\n"
                    "    print(sorted({r['by'] for r in found.rows}), found.rows[8]['square'])\n"
                    % (self.path, self.path + ".csv"))
        done = subprocess.run(["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "3",
                               COMMAND, script], capture_output=True, text=True,
                              env=dict(os.environ, SOMA_PYTHON=sys.executable))
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(["n %d" % n for n in range(9)] + ["[1, 2] 64"]), done.stderr)
        self.assertEqual(len(pathlib.Path(self.path).read_text().splitlines()), 10)
        self.assertEqual(len(pathlib.Path(self.path + ".csv").read_text().splitlines()), 10)


class Autotune(unittest.TestCase):
    def test_the_fastest_variant_is_chosen_once_for_each_kind_of_arguments(self):
        tuned = soma.autotune(over={"rows": [32, 128, 256], "columns": [128, 512]}, jobs=2)(scale)
        np.testing.assert_array_equal(tuned(X), X * 2)
        self.assertEqual(tuned.best(X), {"rows": 128, "columns": 512})
        self.assertEqual(len(tuned.sweeps), 1)
        tried = tuned.tune(X)
        self.assertEqual([("fault" in r) for r in tried.rows], [False] * 4 + [True] * 2)
        self.assertEqual(tried.best()["time_us"], scale.time(X, rows=128, columns=512))
        self.assertEqual(tuned.run(X).time_us, scale.run(X).time_us)
        self.assertEqual(tuned.check(X, schedules=2), [])
        tuned(X[:128])
        self.assertEqual(len(tuned.sweeps), 2)
        with self.assertRaisesRegex(ValueError, "`where` leaves no variant"):
            soma.autotune(over={"rows": [1]}, where=lambda rows: False)(scale)
        few = soma.autotune(over={"rows": [32, 64]}, where=lambda rows: rows > 32)(scale)
        self.assertIn("tile sbuf float32[64,", few.program(X).source())
        self.assertIsNotNone(few.advice(X))
        self.assertEqual(few.best(X), {"rows": 64})

    def test_each_kind_of_arguments_has_its_journal(self):
        with tempfile.TemporaryDirectory() as folder:
            def tuned():
                return soma.autotune(over={"rows": [32, 128]},
                                     journal=os.path.join(folder, "j"))(scale)
            first = tuned()
            for x in (X, X[:128]):
                self.assertEqual(first.tune(x).best()["time_us"], scale.time(x, rows=128))
            files = sorted(pathlib.Path(folder).iterdir())
            self.assertEqual([len(f.read_text().splitlines()) for f in files], [3, 3])
            again = tuned()
            self.assertEqual(again.tune(X).rows, first.tune(X).rows)
            self.assertEqual(sorted(pathlib.Path(folder).iterdir()), files)

    def test_a_grid_is_tuned_once(self):
        tuned = soma.autotune(over={"rows": [32, 128]})(scale)
        self.assertIs(tuned[2].tune(X), tuned[2].tune(X))
        self.assertIsNot(tuned[2].tune(X), tuned.tune(X))
        self.assertEqual(len(tuned.sweeps), 2)

    def test_the_manuals_example(self):
        text = pathlib.Path(ROOT, "python/README.md").read_text()
        code = text.split("<!-- example: sweep -->")[1].split("```python\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w") as f:
                f.write(code)
            done = subprocess.run([COMMAND, path], capture_output=True, text=True, cwd=folder,
                                  env=dict(os.environ, SOMA_PYTHON=sys.executable))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[0].split(), ["True", "{'rows':", "128}"])
        self.assertEqual(done.stdout.splitlines()[1].split()[:2], ["rows", "time_us"])


if __name__ == "__main__":
    unittest.main()
