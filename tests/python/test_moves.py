"""Runs of Machine.start: moved on in steps, looked at, changed, saved and resumed."""
import contextlib
import io
import os
import tempfile
import unittest

import numpy as np

import soma

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python",
                       "README.md"), encoding="utf-8") as manual:
    EXAMPLE = manual.read().split("<!-- example: steps -->\n```python\n")[1].split("```")[0]
SOURCE = """
        target  trn2
x       tensor  float32[128, 512], input
y       tensor  float32[128, 512], output
t       tile    sbuf float32[128, 512]
loaded  sem
squared sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q                 $loaded
        dma_copy  y, t, queue=q  $squared>=1
        halt
section scalar
        mov       r1, 7
        activate  t, t, fn=square  $loaded>=16  $squared++
        halt
"""
X = np.linspace(-2, 2, 128 * 512, dtype=np.float32).reshape(128, 512)


class Moves(unittest.TestCase):
    def setUp(self):
        self.machine = soma.Machine("trn2")
        self.program = self.machine.assemble(SOURCE, "square.s")

    def start(self):
        return self.machine.start(self.program, {"x": X})

    def whole(self):
        return soma.Machine("trn2").run(soma.Machine("trn2").assemble(SOURCE, "square.s"), {"x": X})

    def test_to_a_line_and_on(self):
        run = self.start()
        self.assertEqual((run.ended, run.time_ns), (False, 0))
        self.assertIs(run.until_line("square.s:15"), run)
        self.assertFalse(run.ended)
        self.assertTrue((self.machine.tile(self.program, "t") == X).all())
        self.assertEqual(run.engine("scalar")["line"], 15)
        sync = run.engine("sync")
        self.assertEqual([sync[n] for n in ("status", "line", "semaphore", "condition", "want")],
                         ["waiting", 11, "squared", ">=", 1])
        self.assertRegex(run.waits(), r"sync .*waits for \$squared>=1")
        self.assertEqual(self.machine.register("scalar", 1), 7)
        run.go_on()
        self.assertTrue(run.ended)
        self.assertTrue((run.out["y"] == X * X).all())
        self.assertEqual(run.stats.trace_hash, self.whole().stats.trace_hash)

    def test_by_engine_by_event_and_by_time(self):
        run = self.start().step("sync")
        self.assertEqual(run.engine("sync")["instructions"], 1)
        moved = [run.until(t).transfers() for t in (1000, 1600)]
        self.assertEqual([(t["line"], t["queue"], t["semaphore"], t["bytes"]) for t in moved[0]],
                         [(10, "q", "loaded", X.nbytes)])
        self.assertGreaterEqual(moved[0][0]["bytes"], sum(t["bytes"] for t in moved[1]))
        self.assertLessEqual(run.time_ns, 1600)
        steps = 0
        while not run.ended:
            run.step()
            steps += 1
        self.assertGreater(steps, 10)
        self.assertEqual(run.stats.trace_hash, self.whole().stats.trace_hash)

    def test_until_something_is_written(self):
        run = self.start().until_written("t")
        self.assertFalse(run.ended)
        self.assertTrue(self.machine.tile(self.program, "t").any())
        run.until_written("y")
        self.assertFalse(run.ended)
        self.assertTrue(run.fetch("y").any())
        self.assertTrue(run.go_on().ended)

    def test_what_is_changed_counts(self):
        run = self.start().until_line(15)
        self.machine.set_tile(self.program, "t", 3)
        self.machine.set_register("scalar", 1, -9)
        self.assertEqual(self.machine.register("scalar", 1), -9)
        self.assertTrue((run.go_on().out["y"] == 9).all())
        run = self.start().until(100)
        self.machine.set_semaphore(self.program, "squared", 1)
        self.assertEqual(self.machine.semaphore(self.program, "squared"), 1)
        self.assertLess(run.go_on().time_ns, self.whole().time_ns)

    def test_saved_and_resumed(self):
        run = self.start().until_line("square.s:15")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "half.run")
            self.assertEqual(run.save(path), path)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), run.save())
            again = soma.Machine("trn2").resume(path)
        self.assertEqual((again.ended, again.time_ns), (False, run.time_ns))
        for r in (again, run, soma.Machine().resume(run.save())):
            self.assertTrue((r.go_on().out["y"] == X * X).all())
            self.assertEqual(r.stats.trace_hash, self.whole().stats.trace_hash)

    def test_recorded(self):
        machine = soma.Machine("trn2", record=True)
        run = machine.start(machine.assemble(SOURCE, "square.s"), {"x": X}).until(1000).go_on()
        self.assertIn("scalar", run.timeline())
        self.assertEqual(run.critical_path()[-1]["end_ns"], run.time_ns)
        again = soma.Machine(record=True).resume(self.start().until(1500).save()).go_on()
        self.assertIn("scalar", again.timeline())  # from there on
        self.assertEqual(set(again.table("Instruction")["engine"]) - {"sync", "scalar"}, set())
        with self.assertRaisesRegex(soma.SomaError, "a machine records one run"):
            machine.resume(self.start().save())

    def test_a_fault_ends_it(self):
        source = SOURCE.replace("mov       r1, 7", "nop $loaded>=17")
        run = self.machine.start(self.machine.assemble(source, "square.s"), {"x": X})
        with self.assertRaises(soma.DeadlockError):
            run.go_on()
        self.assertTrue(run.ended)

    def test_what_is_refused(self):
        run = self.start()
        for call, message in (
                (lambda: run.until_line("square.s:3"), "no instruction comes from line square.s:3; "
                 "there are square.s:10, "), (lambda: run.until_line("x"), "expected a line"),
                (lambda: run.step("pe"), "there is no engine 'pe'"),
                (lambda: run.until_written("z"), "no tile z; it has t"),
                (lambda: self.machine.set_semaphore(self.program, "loaded", 1 << 31), "it must be"),
                (lambda: self.machine.set_tile(self.program, "t", np.ones((3, 3))), "broadcast"),
                (lambda: self.machine.resume(b"nothing"), ".")):
            with self.assertRaisesRegex((soma.SomaError, ValueError), message):
                call()
        for time in (-1, "5us", float("nan")):
            with self.assertRaisesRegex(ValueError, "expected a time in nanoseconds"):
                run.until(time)
        self.assertTrue((run.go_on().out["y"] == X * X).all())
        with contextlib.suppress(soma.SomaError):
            self.machine.assemble("bogus")
        other = self.start()
        with self.assertRaisesRegex(soma.SomaError, "or its machine has another run"):
            run.save()
        other.give_back()
        for call in (other.go_on, other.save, other.step, lambda: other.ended):
            with self.assertRaisesRegex(soma.SomaError, "^the run was given back$"):
                call()

    def test_the_manuals_example(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder) \
                if hasattr(contextlib, "chdir") else contextlib.nullcontext(), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            exec(EXAMPLE, {"source": SOURCE, "x": X, "np": np, "soma": soma})
        self.assertRegex(out.getvalue(),
                         r"^2030 ns: waiting 16\nFalse\n  sync at .* waits for \$squared")


if __name__ == "__main__":
    unittest.main()
