"""Kernels end to end: the new style, the old style, their results and their clean checks."""
import contextlib
import io
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma
from helper import KernelCase

rng = np.random.default_rng(7)


def data(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@nki.jit
def add_new(a, b):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=c, src=x)
    return c


@nki.jit
def add_old(a, b):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(c, nl.load(a) + nl.load(b))
    return c


@nki.jit
def matmul(a, b):
    k, m = a.shape
    c = nl.ndarray((m, b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.zeros((m, b.shape[1]), nl.float32, buffer=nl.psum)
    for i in nl.affine_range(k // 128):
        sums += nisa.nc_matmul(nl.load(a[i * 128:(i + 1) * 128]), nl.load(b[nl.ds(i * 128, 128)]))
    nl.store(c, sums)
    return c


class Kernels(unittest.TestCase):
    def clean(self, kernel, *args):
        found = [f for f in kernel.check(*args, schedules=3) if f.check != "range"]
        self.assertEqual(found, [], "\n".join(map(str, found)))

    def test_vector_add_in_both_styles(self):
        a, b = data(128, 300), data(128, 300)
        for kernel in (add_new, add_old):
            np.testing.assert_array_equal(kernel(a, b), a + b)
            self.clean(kernel, a, b)

    def test_a_sum_of_matmuls(self):
        a, b = data(384, 96), data(384, 200)
        np.testing.assert_allclose(matmul(a, b), a.T @ b, rtol=1e-4, atol=1e-4)
        self.assertNotIn("memset", matmul.source(a, b))
        self.clean(matmul, a, b)

    def test_latency_is_simulated_time_and_the_launch(self):
        a, b = data(128, 64), data(128, 64)
        timed = nki.benchmark(add_new, warmup=1, iters=2, save_neff_name="")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            timed(a, b)
        us = timed.benchmark_result.nc_latency.get_latency_percentile(99)
        self.assertAlmostEqual(us, add_new.run(a, b).time_us + 10)
        name, rule, head, row, again = out.getvalue().splitlines()
        self.assertEqual((name, rule), ("add_new", again))
        self.assertEqual(head.split()[-4:], ["NCL(1)", "NCL(50)", "NCL(99)", "%USER"])
        self.assertEqual(row.split()[-4:], ["%d" % round(us)] * 3 + ["N/A"])
        self.assertEqual(len(head.replace("NC USED", "NC_USED").split()), len(row.split()))

    def test_options_without_effect_are_said(self):
        for options, said in (({"device_count": 2}, "has no effect: one core is emulated"),
                              ({"itres": 2}, "nki.benchmark has no option itres")):
            with self.assertWarnsRegex(UserWarning, said):
                nki.benchmark(add_new, **options)

    def test_equal_calls_build_once(self):
        a, b = data(128, 32), data(128, 32)
        add_new(a, b)
        built = add_new.build((a, b), {})[0]
        self.assertIs(built, add_new.build((b, a), {})[0])
        self.assertIsNot(built, add_new.build((a[:64], b[:64]), {})[0])


@nki.jit
def both_in_psum(a, b):
    x = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    p = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    q = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=x, moving=x)
    nisa.nc_matmul(dst=q, stationary=x, moving=x)
    nisa.tensor_tensor(dst=x, data1=p, data2=q, op=nl.add)
    return a


class Errors(unittest.TestCase):
    def test_tune_gives_the_fastest_of_what_it_tries(self):
        @nki.jit
        def exps(x):
            y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            for i in range(x.shape[0] // 128):  # one tile: as written, each load waits for a store
                nisa.dma_copy(dst=t, src=x[i * 128:(i + 1) * 128, :])
                nisa.activation(dst=t, op=nl.exp, data=t)
                nisa.dma_copy(dst=y[i * 128:(i + 1) * 128, :], src=t)
            return y

        x = np.linspace(-1, 1, 512 * 256, dtype=np.float32).reshape(512, 256)
        tuning = exps.tune(x)
        times = [us for _, us, _ in tuning.policies]
        self.assertGreaterEqual(len(times), 6)
        self.assertEqual(tuning.time_us, min(times))
        self.assertEqual(times[0], exps.run(x).time_us)
        run = tuning.kernel.run(x)
        self.assertEqual(run.time_us, tuning.time_us)
        self.assertLess(tuning.time_us, 0.8 * times[0])
        self.assertTrue((run.result == exps(x)).all())
        self.assertEqual(repr(tuning).count("  chosen"), 1)
        with self.assertRaisesRegex(Exception, "optimize=3: it is 0 .*, 1 or 2"):
            nki.jit(exps, optimize=3)(x)

    def test_an_error_names_the_users_line_and_the_rule(self):
        with self.assertRaisesRegex(soma.KernelError,
                                    r"test_kernels.py:\d+: tensor_tensor.*psum") as caught:
            both_in_psum(data(128, 128), data(128, 128))
        first = both_in_psum.function.__code__.co_firstlineno
        self.assertEqual(caught.exception.line, first + 8)

    def test_types_that_the_machine_does_not_have_are_refused(self):
        with self.assertRaisesRegex(TypeError, "argument a: float64"):
            add_new(np.zeros((128, 8)), np.zeros((128, 8)))

    def test_calls_outside_of_a_kernel_are_refused(self):
        with self.assertRaisesRegex(soma.KernelError, "outside of a kernel"):
            nl.ndarray((128, 8), nl.float32)



class SumsOntoABias(KernelCase):
    def test_matmuls_may_add_to_what_another_engine_wrote(self):
        @nki.jit
        def kernel(a, b, value):
            t = nl.full((128, 64), value, dtype=nl.float32, buffer=nl.psum)
            x, y = nl.load(a), nl.load(b)
            for _ in range(3):
                nisa.nc_matmul(dst=t, stationary=x, moving=y, accumulate=True)
            out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        a, b = data(128, 128), data(128, 64)
        for value in (0.0, 3.0):
            self.same(kernel(a, b, value), 3 * a.T @ b + value, rtol=1e-4, atol=1e-4)
            self.clean(kernel, a, b, value)


if __name__ == "__main__":
    unittest.main()
