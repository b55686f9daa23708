"""Transfers and copies of one line, round after round, are one where the middle end works on a
kernel: the same bits, fewer instructions; and what must stay apart does."""
import contextlib
import io
import random
import unittest
import warnings

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from helper import KernelCase, data

P = 128


def tiles(x, y):
    """x^T y, tile by tile, and the transposes of x's tiles."""
    out = nl.ndarray((P, y.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    turned = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for n in nl.affine_range(y.shape[1] // 256):
        acc = nl.zeros((P, 256), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(x.shape[0] // P):
            a = nl.load(x[k * P:(k + 1) * P, :])
            b = nl.load(y[k * P:(k + 1) * P, n * 256:(n + 1) * 256])
            acc += nl.matmul(a, b, transpose_x=True)
        nl.store(out[:, n * 256:(n + 1) * 256], value=nl.copy(acc))
    t = nl.ndarray((nl.par_dim(P), x.shape[0] // P, P), dtype=nl.float32, buffer=nl.sbuf)
    for k in nl.affine_range(x.shape[0] // P):
        t[:, k, :] = nl.copy(nisa.nc_transpose(nl.load(x[k * P:(k + 1) * P, :])))
    for k in nl.affine_range(x.shape[0] // P):
        nl.store(turned[k * P:(k + 1) * P, :], value=t[:, k, :])
    return out, turned


class Merges(KernelCase):
    def test_rounds_become_one_transfer(self):
        x, y = data(512, P), data(512, 512)
        whole, program = nki.jit(tiles), nki.jit(tiles, optimize=0)
        apart = nki.compiler.skip_middle_end_transformations(nki.jit(lambda x, y: tiles(x, y)))
        runs = [k.run(x, y) for k in (whole, apart, program)]
        for run in runs[:2]:
            for got, want in zip(run.result, runs[2].result):
                self.assertEqual(got.tobytes(), want.tobytes())
        turned = x.reshape(4, P, P).transpose(0, 2, 1).reshape(512, P)
        self.same(runs[0].result[1], turned)
        moved = [run.stats.dma_transfers for run in runs]
        self.assertLess(2 * moved[0], moved[1])
        self.assertIn("those of several rounds are one", runs[0].built.report())
        self.assertNotIn("those of several rounds are one", runs[1].built.report())

    def test_each_policy_of_a_search_is_tried_with_them_and_without(self):
        x, y = data(512, P), data(512, 512)
        merged, apart = "all passes", "all passes, transfers apart"
        kernel = nki.jit(tiles)
        times = {name: us for name, us, _ in kernel.tune(x, y).policies}
        self.assertNotEqual(times[merged], times[apart])
        self.assertRegex(nki.jit(tiles, optimize=2).report(x, y), r"  chosen, \d+\.\d % less\n")
        plain = nki.compiler.skip_middle_end_transformations(nki.jit(lambda x, y: tiles(x, y)))
        self.assertNotIn(apart, [name for name, _, _ in plain.tune(x, y).policies])

    def test_a_debugger_shows_tiles_as_they_are_written(self):
        shown = self.said(nki.jit(tiles), data(512, P), data(512, 512))
        self.assertIn("a[0:2, 0:3] = float32[2, 3]", shown)
        self.assertIn("a_2[0:2, 0:3] = float32[2, 3]", shown)

    def said(self, kernel, *args):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            kernel.debug(*args, commands="break test_merges.py:28\ncontinue\nprint a[0:2, 0:3]\n"
                                         "print a_2[0:2, 0:3]\nquit\n")
        return out.getvalue()


    def test_transfers_by_the_element_stay(self):
        """A load of a column for each row takes long for each round, so each round has its own."""
        def kernel(x):
            out = nl.ndarray((P, 4 * P), dtype=nl.float32, buffer=nl.shared_hbm)
            for i in nl.affine_range(4):
                t = nl.load(x[i * P + nl.arange(P)[None, :], nl.arange(P)[:, None]])
                nl.store(out[:, i * P:(i + 1) * P], value=nl.add(t, 1.0))
            return out
        x = data(4 * P, P)
        run = nki.jit(kernel).run(x)
        self.same(run.result, x.T + 1)
        self.assertEqual(run.stats.dma_transfers, 4 + 1)  # the stores are one


def steps(seed):
    """A random list of rounds over a temporary in HBM and tiles: what each does in a round."""
    r = random.Random(seed)
    return [(r.choice(("load", "store", "copy", "turn", "add")), r.randrange(4), r.randrange(4),
             r.choice((0, 0, 0, 1))) for _ in range(r.randint(2, 5))], r.choice((32, 16, 64, 8)), r


def kernel_of(seed):
    what, width, _ = steps(seed)

    def kernel(x):
        out = nl.ndarray((P, 8 * width), dtype=nl.float32, buffer=nl.shared_hbm)
        temp = nl.ndarray((P, 8 * width), dtype=nl.float32, buffer=nl.hbm)
        big = nl.ndarray((P, 8 * width), dtype=nl.float32, buffer=nl.sbuf)
        big[...] = nl.load(x)
        nl.store(temp, value=big)
        for i in range(8):
            here = slice(i * width, (i + 1) * width)
            t = nl.load(x[:, here])
            for op, a, b, again in what:
                other = (i + (a if again else 0)) % 8
                there = slice(other * width, (other + 1) * width)
                if op == "load":
                    t = nl.load(temp[:, there] if b % 2 else x[:, there])
                elif op == "store":
                    nl.store(temp[:, there], value=t)
                elif op == "copy":
                    big[:, there] = nl.copy(t)
                elif op == "turn":
                    t = nl.copy(big[:, there])
                else:
                    t = nl.add(t, float(a))
            nl.store(out[:, here], value=t)
        nl.store(out[:, 0:width], value=nl.copy(big[:, 7 * width:]))
        return out
    return kernel


class Random(KernelCase):
    def test_random_rounds(self):
        merged = 0
        warnings.simplefilter("ignore")  # of loads that nothing reads
        self.addCleanup(warnings.resetwarnings)
        for seed in range(60):
            x = np.random.default_rng(seed).random((P, 8 * steps(seed)[1]), np.float32)
            runs = [nki.jit(kernel_of(seed), optimize=n).run(x) for n in (0, 1, 2)]
            for run in runs[1:]:
                self.assertEqual(runs[0].result.tobytes(), run.result.tobytes(), seed)
            merged += "several rounds" in runs[1].built.report()
        self.assertGreater(merged, 20)


if __name__ == "__main__":
    unittest.main()
