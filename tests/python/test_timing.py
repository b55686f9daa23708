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
import soma

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
        self.assertEqual(tanh.time(x, costs={"LAT_SCALAR": 14352}), slow)
        with self.assertRaisesRegex(soma.SomaError, "there is no constant LAT_X"):
            tanh.time(x, costs={"LAT_X": 1})
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
        self.assertRegex(text, r"FREE_DIM=1000 +trn2 +26.42 total_time +\d+\.\d\d +14.30 +[+-]")
        self.assertRegex(text, r"students +median error \d+\.\d %, worst ")
        self.assertIn("AccelOpt, seven kernels: no checkout AccelOpt in", text)
        self.assertIn("kda-for-trainium: no checkout kda-for-trainium in", text)


class Stores(unittest.TestCase):
    def test_a_store_does_not_hold_what_computes(self):
        """An rmsnorm and a matmul in the order of its lines: with stores on gpsimd the next
        memset there waits for this round's sums, and each round for the one before, 58.5 us."""
        @nki.jit
        def kernel(x, g, w):
            out = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)
            wt = nl.ndarray((128, 4, 512), dtype=w.dtype, buffer=nl.sbuf)
            gt = nl.ndarray((128, 4), dtype=g.dtype, buffer=nl.sbuf)
            for k in range(4):
                nisa.dma_copy(dst=wt[:, k, :], src=w[nl.ds(k * 128, 128), :])
                nisa.dma_copy(dst=gt[:, nl.ds(k, 1)], src=g[nl.ds(k * 128, 128), :])
            for m in range(8):
                xt = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
                sq = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
                ss, e = (nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in "se")
                nisa.dma_copy(dst=xt, src=x[nl.ds(m * 128, 128), :])
                nisa.activation_reduce(dst=sq, op=nl.square, data=xt, reduce_op=nl.add,
                                       reduce_res=ss)
                nisa.memset(dst=e, value=1e-6)
                nisa.activation(dst=ss, op=nl.rsqrt, data=ss, scale=1 / 512, bias=e)
                xn = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
                nisa.tensor_scalar(dst=xn, data=xt, op0=nl.multiply, operand0=ss)
                acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                for k in range(4):
                    tp = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.psum)
                    nisa.nc_transpose(dst=tp, data=xn[:, nl.ds(k * 128, 128)])
                    xT = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
                    nisa.tensor_scalar(dst=xT, data=tp, op0=nl.multiply,
                                       operand0=gt[:, nl.ds(k, 1)])
                    nisa.nc_matmul(dst=acc, stationary=xT, moving=wt[:, k, :])
                ot = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=ot, src=acc)
                nisa.dma_copy(dst=out[nl.ds(m * 128, 128), :], src=ot)
            return out
        f = np.float32
        w = soma.array(np.zeros((512, 512), f), "bfloat16")
        time = kernel.time(np.zeros((1024, 512), f), np.zeros((512, 1), f), w)
        self.assertLess(time, 42.1)


if __name__ == "__main__":
    unittest.main()
