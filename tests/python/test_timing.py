"""kernel.time, and the table of unmodified kernels against published times."""
import importlib.util
import io
import os
import tempfile
import unittest
from contextlib import redirect_stdout

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KERNEL = '''
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def vector_add_stream(a, b):
    FREE_DIM = 7
    a, b = a.reshape((128, a.shape[0] // 128)), b.reshape((128, b.shape[0] // 128))
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(a.shape[1] // FREE_DIM):
        part = nl.ds(i * FREE_DIM, FREE_DIM)
        nl.store(c[:, part], nl.load(a[:, part]) + nl.load(b[:, part]))
    return c
'''


@nki.jit
def tanh(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.tanh, data=t)
    nisa.dma_copy(dst=y, src=t)
    return y


class Time(unittest.TestCase):
    def test_it_is_the_time_of_a_run(self):
        x = np.ones((128, 512), np.float32)
        self.assertEqual(tanh.time(x), tanh.run(x).time_us)

    def test_target_and_costs(self):
        x = np.ones((128, 512), np.float32)
        self.assertNotEqual(tanh.time(x, target="trn1"), tanh.time(x, target="trn3"))
        slow = tanh.time(x, costs="LAT_SCALAR 14352")  # 14000 cycles of 1.2 GHz more
        self.assertAlmostEqual(slow - tanh.time(x), 11.667, delta=0.01)


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        spec = importlib.util.spec_from_file_location(
            "kernels", os.path.join(ROOT, "tests", "timing", "kernels.py"))
        cls.kernels = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.kernels)
        cls.target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")

    def tearDown(self):
        os.environ.pop("NEURON_PLATFORM_TARGET_OVERRIDE", None)
        if self.target:
            os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = self.target

    def test_a_row_of_a_checkout(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "chenhzhu-asst4-trainium2", "part1"))
            with open(os.path.join(folder, "chenhzhu-asst4-trainium2", "part1", "kernels.py"),
                      "w") as f:
                f.write(KERNEL)
            out = io.StringIO()
            with redirect_stdout(out):
                self.assertEqual(self.kernels.main([folder, "chenhzhu: vector"]), 0)
        text = out.getvalue()
        # the constant of the text is the row's
        self.assertRegex(text, r"FREE_DIM=1000 +trn2 +26.42 total_time +\d+\.\d\d +10.00 +[+-]")
        self.assertRegex(text, r"students +median error \d+\.\d %, worst ")
        self.assertIn("AccelOpt, seven kernels: no checkout AccelOpt in", text)
        self.assertIn("kda-for-trainium: no checkout kda-for-trainium in", text)


if __name__ == "__main__":
    unittest.main()
