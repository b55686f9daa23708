"""The package soma: programs, runs, types, arrays."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma
from soma import arrays, dtypes

PROGRAM = """
        target  trn2
x       tensor  float32[128, 64], input
y       tensor  float32[128, 64], output
tx      tile    sbuf float32[128, 64]
loaded  sem
done    sem
q       queue   dge=hwdge
section sync
        dma_copy  tx, x, queue=q    $loaded
        dma_copy  y, tx, queue=q    $done>=1
        halt
section scalar
        activate  tx, tx, fn=tanh, scale=0.5   $loaded>=%d  $done++
        halt
"""

PAIR = """
        target  trn2
got     sem     core=*
q       queue   dge=hwdge, core=*
x       tensor  float32[2, 128, 64], input
both    tensor  float32[2, 128, 64]
y       tensor  float32[2, 128, 64], output
t       tile    sbuf float32[128, 64]
section sync core=*
        dma_copy  t, x[CORE], queue=q                       $got
        dma_copy  both[CORE], t, queue=q        $got>=16    $got
        dma_copy  y[CORE], both[1 - CORE], queue=q  $got>=32
        halt
"""


class Programs(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(1).standard_normal((128, 64)).astype(np.float32)

    def test_a_program_runs_and_gives_arrays_and_time(self):
        run = soma.run(PROGRAM % 16, {"x": self.x}, checks="all", record=True)
        np.testing.assert_allclose(run.out["y"], np.tanh(self.x * np.float32(0.5)), rtol=1e-6)
        self.assertEqual(run.findings, [])
        self.assertGreater(run.time_ns, 1000)
        self.assertGreater(run.stats.engines["scalar"]["busy_ns"], 0)
        page = run.page()
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "p.html")
            self.assertEqual(run.page(name), page)
            with open(name, encoding="utf-8") as f:
                self.assertEqual(f.read(), page)
        self.assertIs("of mine" in page, False)
        self.assertIs("of mine" in run.page(title="of mine"), True)
        self.assertIn("<html", page.lower())
        self.assertIn('"sources":["', page)  # the text of the program
        self.assertIn("scalar", run.timeline())
        self.assertIn("critical path", run.explain())

    def test_the_example_of_the_manual_prints_what_it_shows(self):
        text = pathlib.Path("python/README.md").read_text().split("<!-- example: soma -->")[1]
        block = r"\s*```python\n(.*?)```\n\n((?:    [^\n]*\n)+)"
        code, shown = re.match(block, text, re.S).groups()
        with tempfile.TemporaryDirectory() as folder:
            got = subprocess.run([sys.executable, "-c", code], cwd=folder, text=True, check=True,
                                 env={**os.environ, "PYTHONPATH": os.path.abspath("python")},
                                 capture_output=True).stdout
            self.assertEqual(got, textwrap.dedent(shown))
            self.assertIn("<html", pathlib.Path(folder, "square.html").read_text().lower())

    def test_an_input_that_is_no_array_is_named(self):
        for value, said in ((np.zeros((128, 64)), "input x: float64"), (None, "input x: ")):
            with self.assertRaisesRegex(TypeError, said):
                soma.run(PROGRAM % 16, {"x": value})

    def test_a_race_is_found_with_its_line(self):
        run = soma.run(PROGRAM % 15, {"x": self.x}, checks="race")
        self.assertEqual(run.findings[0].check, "race")
        self.assertEqual(run.findings[0].line, 14)

    def test_a_race_that_no_signal_between_the_cores_orders(self):
        machine = soma.Machine("trn2", checks="all")
        run = machine.run(machine.assemble(PAIR, "s\xf6ma.s"), {"x": np.stack([self.x, self.x])})
        self.assertEqual([f.line for f in run.findings], [12, 12])
        for core, f in enumerate(run.findings):
            u = f.unsignalled
            self.assertEqual((u.tensor, u.core, u.other_core, u.other_file, u.other_line),
                             ("both", core, 1 - core, "s\xf6ma.s", 11))
            self.assertEqual(f.text[slice(*u.fix)], (
                "core %d must update a semaphore of core %d when s\xf6ma.s:11 is over, and core %d "
                "sync wait for it before s\xf6ma.s:12") % (1 - core, core, core))
        one = soma.run(PROGRAM % 15, {"x": self.x}, checks="race").findings[0]
        self.assertIsNone(one.unsignalled)

    def test_the_run_gives_the_first_dimension(self):
        text = ("x tensor float32[r10 <= 128, 64], input\n"
                "y tensor float32[r10 <= 128, 64], output\nq queue dge=hwdge\n"
                "section sync\ndma_copy y, x, queue=q\nhalt\n")
        for n in (1, 77, 128):
            run = soma.run(text, {"x": self.x[:n]}, checks="all")
            np.testing.assert_array_equal(run.out["y"], self.x[:n])
            self.assertEqual(run.fetch("x").shape, (n, 64))
        self.assertEqual(soma.run(text, rows={"y": 5}, timing_only=1).shape("x"), (5, 64))
        with self.assertRaisesRegex(soma.SomaError, r"x is float32\[r10<=128, 64\].*\[129, 64\]"):
            soma.run(text, {"x": np.zeros((129, 64), np.float32)})
        with self.assertRaisesRegex(soma.SomaError, "1 to 128, not 129"):
            soma.run(text, {"x": self.x}, rows={"y": 129})

    def test_errors_have_the_place_and_the_reason(self):
        with self.assertRaisesRegex(soma.SomaError, "unknown instruction `foo`"):
            soma.run("foo")
        with self.assertRaisesRegex(soma.SomaError, "x"):
            soma.run(PROGRAM % 16, {"x": self.x[:64]})
        with self.assertRaisesRegex(ValueError, "no check is called 'speed'"):
            soma.Machine(checks="speed")
        with self.assertRaisesRegex(soma.SomaError, "trn9"):
            soma.Machine("trn9")

    def test_wrong_arguments_are_refused_by_name(self):
        text, x = PROGRAM % 16, {"x": self.x}
        for error, words, call in (
                (TypeError, "there is no option foo; there are target, checks, record, print, ",
                 lambda: soma.run(text, x, foo=1)),
                (TypeError, "there is no option alloc", lambda: soma.Machine(alloc=1)),
                (ValueError, "max_instructions=-1: it must be 0 to 9223372036854775807",
                 lambda: soma.run(text, x, max_instructions=-1)),
                (TypeError, "max_time=.1.: expected a", lambda: soma.run(text, x, max_time="1")),
                (TypeError, "costs=3: expected a string", lambda: soma.run(text, x, costs=3)),
                (ValueError, "checks=-1: as a number it is a sum of bits, 1 to 127",
                 lambda: soma.run(text, x, checks=-1)),
                (ValueError, "threads=257: it must be 1 to 256, or 0 for all",
                 lambda: soma.Machine(threads=257)),
                (soma.SomaError, "unknown simd level 'sse'; there are: plain, avx2, avx512",
                 lambda: soma.Machine(simd="sse")),
                (soma.SomaError, "there is no target 'trn9'; there are trn1, inf2, trn2, trn3",
                 lambda: soma.run(text, x, target="trn9")),
                (TypeError, "the source is a string, not int", lambda: soma.run(5)),
                (TypeError, "expected the inputs as a dict of arrays, {\"x\": x}, not list",
                 lambda: soma.run(text, [self.x])),
                (TypeError, "expected a program of assemble\\(\\) or load\\(\\), not str",
                 lambda: soma.Machine().run(text, x)),
                (TypeError, "expected the bytes of a program file, not str",
                 lambda: soma.Machine().load("x.sbc")),
                (soma.SomaError, "3 bytes: a program file has at least 48",
                 lambda: soma.Machine().load(b"abc"))):
            with self.assertRaisesRegex(error, words):
                call()

    def test_a_program_is_printed_and_saved(self):
        m = soma.Machine("trn2")
        p = m.assemble(PROGRAM % 16)
        self.assertIn("activate", p.source())
        self.assertEqual(m.load(p.bytes()).source(), p.source())
        self.assertEqual(list(p.tensors), ["x", "y"])
        self.assertEqual(p.tensors["y"][1:], ((128, 64), "output"))


    def test_a_program_of_a_kernel_assembles_to_the_same_bytes(self):
        """Also with names that the assembler has for itself, and with two cores."""
        @nki.jit
        def kernel(tensor, group):
            out = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.shared_hbm)
            r1 = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, name="r1")
            other = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf, name="else")
            half = nl.program_id(0) * 64
            nisa.dma_copy(dst=r1, src=tensor[half:half + 64])
            nisa.dma_copy(dst=other, src=group[half:half + 64])
            nisa.tensor_tensor(dst=r1, data1=r1, data2=other, op=nl.add)
            nisa.dma_copy(dst=out[half:half + 64], src=r1)
            return out
        x = np.ones((128, 64), np.float32)
        m = soma.Machine("trn2")
        for grid in (2, nl.nc(2)):
            np.testing.assert_array_equal(kernel[grid](x, x), x + x)
            program = kernel[grid].build((x, x), {})[0].program
            self.assertEqual(m.assemble(program.source()).bytes(), program.bytes())


class Types(unittest.TestCase):
    def test_types_equal_their_names_and_numpys(self):
        self.assertEqual(dtypes.float32, np.float32)
        self.assertEqual(dtypes.float32, "float32")
        self.assertNotEqual(dtypes.float32, np.float16)
        self.assertEqual(np.dtype(dtypes.bfloat16).itemsize, 2)
        self.assertIs(dtypes.find(np.dtype(dtypes.bfloat16)), dtypes.bfloat16)
        with self.assertRaisesRegex(TypeError, "float64 is not a type"):
            dtypes.find(np.float64)

    def test_every_code_of_an_8_bit_float_survives(self):
        codes = np.arange(256, dtype=np.uint8)
        for name in ("float8_e4m3", "float8_e5m2", "float8_e4m3fn", "float8_e3m4"):
            values = arrays.bits_to_float(codes, name)
            back = arrays.float_to_bits(values, name)
            self.assertTrue(((back == codes) | np.isnan(values)).all(), name)

    def test_rounding_is_to_nearest_even(self):
        x = np.array([1.0, 1 + 2.0 ** -8, 1 + 3 * 2.0 ** -8, np.inf, np.nan, -2.5], np.float32)
        bits = arrays.float_to_bits(x, "bfloat16")
        self.assertEqual([hex(b) for b in bits],
                         ["0x3f80", "0x3f80", "0x3f82", "0x7f80", "0x7fc0", "0xc020"])
        self.assertEqual(arrays.float_to_bits(np.float32([17, 19, 248, 247.9]),
                                              "float8_e4m3").tolist(), [88, 90, 120, 119])

    def test_a_raw_array_acts_as_its_values(self):
        a = soma.array(np.linspace(-3, 3, 7), dtypes.bfloat16)
        self.assertTrue(np.allclose(a, np.linspace(-3, 3, 7)))
        self.assertEqual(a.astype(np.float32).tolist(), [-3, -2, -1, 0, 1, 2, 3])
        if isinstance(a, soma.RawArray):
            self.assertEqual((a + 1).dtype, np.float32)
            self.assertEqual(a.bits().dtype, np.uint16)
            self.assertIs(a.reshape(7, 1).soma_dtype, dtypes.bfloat16)


if __name__ == "__main__":
    unittest.main()
