"""What a run tells: one total, figures, tables, how it shows itself; options of run()."""
import contextlib
import html
import inspect
import io
import json
import os
import re
import runpy
import tempfile
import unittest
import warnings

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma
from soma import show


@nki.jit
def exp(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.dma_copy(dst=y, src=t)
    return y


@nki.jit
def scaled(x, costs=3.0, **more):
    return nl.store(x, nl.load(x) * costs * more.get("by", 1))


@nki.jit
def unwritten(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[0:1], src=x[0:1])
    nisa.dma_copy(dst=y, src=t)
    return y


warnings.simplefilter("ignore", UserWarning)  # of `unwritten`
X = np.ones((128, 512), np.float32)


def page_data(page):
    """The object that a page holds."""
    at = page.index('{"soma":"')
    return json.JSONDecoder().raw_decode(page[at:])[0]


class Totals(unittest.TestCase):
    def test_every_output_has_the_same_total(self):
        # A transfer of fewer bytes than rings: its last rings end without an event of their own.
        for shape in ((128, 512), (128, 4), (4, 128), (1, 512), (8, 64), (16, 2)):
            run = exp.run(np.ones(shape, np.float32))
            us, told = run.time_us, show.span(run.time_ns)
            with self.subTest(shape):
                self.assertIn("\n           %s in all, " % told, run.timeline())
                self.assertTrue(run.explain().startswith("critical path: %s in " % told),
                                run.explain())
                self.assertIn("simulated time  %s\n" % told, run.summary())
                self.assertAlmostEqual(json.loads(run.trace())["otherData"]["total_us"], us, 9)
                self.assertAlmostEqual(run.table("Summary")["total_time"][0] * 1e6, us, 9)
                data = page_data(run.page())
                self.assertEqual(data["total"], int(run.stats.time / 1000))
                self.assertIn(told, repr(run))
                self.assertIn(told, repr(run.stats))

    def test_spans_are_rounded_as_in_the_timeline(self):
        for ns, text in ((0, "0 ns"), (6268.4, "6.27 us"), (99.99, "99.99 ns"),
                         (99.996, "100.0 ns"),
                         (123456, "123.5 us"), (1.5e6, "1.50 ms"), (2e9, "2.00 s")):
            self.assertEqual(show.span(ns), text)


class Tables(unittest.TestCase):
    def test_instructions_as_columns(self):
        run = exp.run(X)
        table = run.table("Instruction")
        self.assertEqual(len({len(c) for c in table.values()}), 1)
        at = list(table["compiler_opcode"]).index("activate")
        self.assertEqual(table["engine"][at], "scalar")
        self.assertEqual(table["duration_fs"].dtype, np.int64)
        self.assertEqual(table["duration_ns"][at], 720)
        active = run.table("ActiveTime")
        self.assertAlmostEqual(active["duration_fs"][active["engine"] == "scalar"].sum() / 1e6,
                               run.stats.engines["scalar"]["busy_ns"], 3)
        self.assertRegex(table["nki_source_location"][at], r"test_told.py:\d+$")
        moved = run.table("DmaPacket")
        self.assertEqual(moved["transfer_bytes"][moved["variable"] == "x"].sum(), X.nbytes)

    def test_a_table_without_rows_has_its_columns(self):
        empty = soma.run("section sync\n halt\n", record=True).table("DmaPacket")
        self.assertEqual(len(empty["start_ts"]), 0)
        self.assertIn("queue_name", empty)

    def test_a_name_that_is_none(self):
        with self.assertRaisesRegex(ValueError, "'Insn'; there are Instruction, DmaPacket, "):
            exp.run(X).table("Insn")

    def test_figures_and_summary(self):
        run = exp.run(X)
        self.assertAlmostEqual(run.figures["mbu"],
                               2 * X.nbytes / (run.time_ns * 1e-9) / run.stats.peak_hbm, 6)
        self.assertGreater(run.figures["active"]["scalar"], 0.05)
        self.assertIn("MBU %.1f%% of 716" % (100 * run.figures["mbu"]), run.summary())
        self.assertRegex(run.summary(), r"scalar +%.1f%%" % (100 * run.figures["active"]["scalar"]))


class Options(unittest.TestCase):
    def test_options_of_the_run(self):
        usual = exp.run(X)
        self.assertEqual(exp.run(X, target="trn1").built.target, "trn1")
        slow = exp.run(X, costs="DMA_SW_BASE 90000\n")
        self.assertGreater(slow.time_us, usual.time_us + 80)
        timed = exp.run(X, timing_only=True)
        self.assertEqual(timed.time_us, usual.time_us)
        self.assertFalse(timed.result.any())
        self.assertNotEqual(exp.run(X, schedule=3).time_us, usual.time_us)
        self.assertEqual(exp.run(X, schedule="all").schedules.verdict, "same")
        self.assertEqual([f.check for f in unwritten.run(X, checks="all").findings][:1], ["uninit"])

    def test_a_name_of_the_kernel_is_the_kernels(self):
        x = X.copy()
        scaled.run(x, costs=2.0, by=4, timing_only=False)
        self.assertEqual(x[0, 0], 8)
        exp.run(X, compiler_flags="-O1")  # as a call: without effect

    def test_other_names_are_refused(self):
        with self.assertRaisesRegex(TypeError, "exp has no parameter cost, .* options are target"):
            exp.run(X, cost="")


@nki.jit
def in_three_steps(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(3):
        t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        u = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[i * 128:(i + 1) * 128])
        nisa.tensor_scalar(dst=u, data=t, op0=nl.multiply, operand0=float(i + 2))
        nisa.tensor_scalar(dst=u, data=u, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=y[i * 128:(i + 1) * 128], src=u)
    return y


class Inside(unittest.TestCase):
    def at(self, text):
        """FILE:LINE of the line of the kernel above that has the text."""
        lines, first = inspect.getsourcelines(in_three_steps.function)
        return "test_told.py:%d" % (first + [text in n for n in lines].index(True))

    def test_a_tile_at_a_line(self):
        x = np.random.default_rng(1).random((384, 64), np.float32)
        run = in_three_steps.run(x)
        kept = x.copy()
        x[:] = 0  # the run has copies
        for n in (1, 2, 3):
            part = kept[n * 128 - 128:n * 128]
            for name, text, want in (("t", "src=x", part), ("u", "data=t", part * (n + 1)),
                                     ("u", "data=u", part * (n + 1) + 1),
                                     ("t", "data=t", part), ("u", "src=u", part * (n + 1) + 1)):
                np.testing.assert_array_equal(run.tile(name, at=self.at(text), nth=n), want)
        np.testing.assert_array_equal(run.tile("u_3"), kept[256:] * 4 + 1)
        for arguments, text in (
                (("t",), "there are t, t_2, t_3: give the line at which one is meant"),
                (("v",), "no tile v; it has t, u, t_2, u_2, t_3, u_3"),
                (("t", self.at("data=u")), "reads or writes t"),
                (("t", self.at("src=x"), 4), "nth=4: 3 instructions of")):
            with self.assertRaisesRegex(soma.SomaError, text):
                run.tile(*arguments)

    def test_the_critical_path_and_gaps(self):
        run = in_three_steps.run(np.ones((384, 64), np.float32))
        path = run.critical_path()
        self.assertEqual(path[0]["start_ns"], 0)
        self.assertAlmostEqual(path[-1]["end_ns"], run.time_ns, 3)
        for a, b in zip(path, path[1:]):
            self.assertEqual(a["end_ns"], b["start_ns"])
        gaps = run.idle_gaps()
        sizes = [g["end_ns"] - g["start_ns"] for g in gaps]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        vector = sum(s for s, g in zip(sizes, gaps) if g["engine"] == "vector")
        self.assertAlmostEqual(vector + run.stats.engines["vector"]["busy_ns"], run.time_ns, 3)
        self.assertEqual(run.idle_gaps(1), gaps[:1])
        late = next(g for g in gaps if g["kind"] == "semaphore")
        self.assertEqual((late["late_name"], late["condition"]), ("dma_copy", ">=16"))

    def test_two_runs(self):
        x = np.ones((384, 64), np.float32)
        run = in_three_steps.run(x)
        other = in_three_steps.run(x, costs="DMA_SW_BASE 90000\n")
        same, slower = run.compare(run), run.compare(other)
        self.assertIn("all lines take the same time", str(same))
        self.assertEqual((same.speedup, same.lines), (1, []))
        self.assertLess(slower.speedup, 0.1)
        self.assertEqual(slower.lines[0][0].rpartition("/")[2], self.at("src=u"))
        self.assertIn("in_three_steps %s, then in_three_steps %s" % (
            show.span(run.time_ns), show.span(other.time_ns)), str(slower))
        self.assertEqual(slower.page().count("<iframe srcdoc"), 2)

    def test_the_state_of_a_machine(self):
        machine = soma.Machine("trn2")
        program = machine.assemble(
            "target trn2\nt tile sbuf float32[4, 8]\ndone sem\nsection vector\n"
            " memset t, 2.5 $done++\n mov r3, -7\n halt\n")
        _kept = machine.run(program)
        self.assertTrue((machine.tile(program, "t") == 2.5).all())
        self.assertEqual((machine.semaphore(program, "done"), machine.register("vector", 3)),
                         (1, -7))
        with self.assertRaisesRegex(soma.SomaError, "no tile u; it has t"):
            machine.tile(program, "u")
        with self.assertRaisesRegex(soma.SomaError, "no semaphore d"):
            machine.semaphore(program, "d")


class Shown(unittest.TestCase):
    def test_repr(self):
        run = exp.run(X)
        self.assertRegex(repr(run), r"^<run of exp on trn2: \d.\d\d us, no findings>$")
        self.assertRegex(repr(run.run), r"^<run on trn2: \d.\d\d us, no findings; out: ")
        self.assertRegex(repr(run.stats), "instructions, 524288 bytes by DMA in 2 transfers>$")

    def test_a_notebook_shows_a_run(self):
        shown = unwritten.run(X, checks="all")._repr_html_()
        self.assertIn("engines: # busy", shown)
        self.assertRegex(shown, r"<b>[^<]*uninit: ")
        page = re.search(r'<iframe[^>]* srcdoc="([^"]*)"></iframe>', shown).group(1)
        self.assertTrue(page.startswith("&lt;!DOCTYPE html&gt;"))
        self.assertEqual(page_data(html.unescape(page))["title"], "unwritten")
        self.assertNotIn("<script", shown)

    def test_a_notebook_shows_texts_and_findings(self):
        found = unwritten.check(X)
        self.assertIn("<b>", found._repr_html_())
        self.assertEqual(exp.check(X), [])
        self.assertEqual(exp.check(X)._repr_html_().count("no findings"), 1)
        for text in (exp.report(X), exp.run(X).timeline(), exp.run(X).summary()):
            self.assertTrue(text._repr_html_().startswith("<pre"))
        self.assertIn("a &lt;b&gt; &amp;", show.Text("a <b> &")._repr_html_())


class Manual(unittest.TestCase):
    def test_its_example_runs(self):
        """The code of the manual that uses its kernel `add`."""
        with open("python/README.md") as f:
            text = f.read()
        first = text.split("```python\n")[1].split("print(")[0].split("```")[0]
        then = "".join(text.split("<!-- example: %s -->" % name)[1].split("```python\n")[1]
                       .split("```")[0] for name in ("nki", "inside"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "add.py")
            with open(path, "w") as f:
                f.write(first + then)
            told = io.StringIO()
            with contextlib.redirect_stdout(told), contextlib.chdir(folder):
                runpy.run_path(path)
            self.assertTrue(os.path.exists(os.path.join(folder, "both.html")))
        figures, name, *inside = told.getvalue().splitlines()
        self.assertTrue(any(n.startswith("add ") and "then add" in n for n in inside), inside)
        self.assertRegex(figures, r"^0\.\d+ 0\.\d+$")
        self.assertIn(name, ("tensor_tensor", "dma_copy"))
