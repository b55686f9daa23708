"""Calls that repeat: which programs are built anew; calls of several threads."""
import contextlib
import enum
import io
import threading
import unittest

import neuronxcc.nki as old
import numpy as np
from helper import KernelCase, data

import nki
import nki.isa as nisa
import nki.language as nl

FACTOR = 2.0


class Kind(enum.Enum):
    PLAIN = 1
    TURNED = 2


KIND = Kind.PLAIN


def scaled(t):
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=FACTOR)


@nki.jit
def by_globals(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=x)
    scaled(t)
    if KIND is Kind.TURNED:
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=-1.0)
    nisa.dma_copy(dst=out, src=t)
    return out


@nki.jit
def twice(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out, src=t)
    return out, out


def made(value):
    @nki.jit
    def by_closure(x):
        t = nl.load(x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t * value)
        return out

    def change(new):
        nonlocal value
        value = new
    return by_closure, change


class Again(KernelCase):
    def test_a_global_of_a_helper_is_seen(self):
        global FACTOR, KIND
        x = data(16, 8)
        try:
            self.same(by_globals(x), 2 * x, 0, 0)
            FACTOR = 3.0
            self.same(by_globals(x), 3 * x, 0, 0)
            KIND = Kind.TURNED
            self.same(by_globals(x), -3 * x, 0, 0)
        finally:
            FACTOR, KIND = 2.0, Kind.PLAIN

    def test_a_variable_around_a_kernel_is_seen(self):
        x = data(16, 8)
        kernel, change = made(2.0)
        self.same(kernel(x), 2 * x, 0, 0)
        change(5.0)
        self.same(kernel(x), 5 * x, 0, 0)

    def test_an_equal_call_uses_the_program(self):
        x = data(16, 8)
        first, _ = by_globals.build((x,), {})
        again, _ = by_globals.build((x + 1,), {})
        other, _ = by_globals.build((data(8, 8),), {})
        self.assertIs(first, again)
        self.assertIsNot(first, other)
        timed = nki.benchmark(by_globals)
        with contextlib.redirect_stdout(io.StringIO()):
            timed(x)
        self.assertIs(timed.benchmark_result.run.built, first)
        self.assertIs(nki.jit(by_globals, platform_target="trn2").build((x,), {})[0], first)
        self.assertIsNot(old.jit(by_globals).build((x,), {})[0], first)
        self.assertIsNot(by_globals.tune(x).kernel.build((x,), {})[0], first)

    def test_a_kernel_that_spills_is_recorded_once(self):
        recorded = []

        @nki.jit
        def kernel(x):
            recorded.append(1)
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tiles = [nl.load(x[i * 128:i * 128 + 128]) for i in range(10)]  # 32 KiB
            for i in reversed(range(10)):
                nl.store(out[i * 128:i * 128 + 128], tiles[i] + float(i))
            return out
        x = data(1280, 8192)
        built, _ = kernel.build((x,), {})
        self.assertGreater(built.figures()["spills"], 2)
        self.assertEqual(len(recorded), 1)
        self.same(kernel(x), x + np.arange(10, dtype=np.float32).repeat(128)[:, None], 0, 0)

    def test_results_stay(self):
        x = data(16, 8)
        first = by_globals(x)
        kept = first.copy()
        del x
        for i in range(4):
            by_globals(data(16, 8) + i)
        np.testing.assert_array_equal(first, kept)
        run = by_globals.run(kept)
        result, out = run.result, run.run.out
        del run
        np.testing.assert_array_equal(result, next(iter(out.values())))

    def test_returned_twice(self):
        first, second = twice(data(16, 8))
        np.testing.assert_array_equal(first, second)
        first[0, 0] += 1
        self.assertNotEqual(first[0, 0], second[0, 0])

    def test_threads(self):
        wrong = []

        def work(n):
            try:
                for i in range(24):
                    x = np.full((16, 8 + n), n + i, np.float32)
                    if not np.array_equal(by_globals(x), 2 * x) or by_globals.check(x):
                        wrong.append((n, i))
            except Exception as error:
                wrong.append(error)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
