"""Masks of one axis and of several: what they leave is NumPy's, the rest is zero or as it was."""
import unittest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from helper import KernelCase, data, of_tiles

import nki
from soma.errors import KernelError, NotBuilt

P, N = 64, 48
I, J = np.indices((P, N))
# name: a mask of two indices, of NumPy's or the kernel's.
MASKS = {
    "rows": lambda i, j: (i < 40) & (j >= 0),
    "a box": lambda i, j: (i >= 32) & (j < 17) & (j > 3),
    "everything": lambda i, j: (48 * i + j < P * N) & (i + j >= 0),
    "whole rows of all": lambda i, j: 48 * i + j < 20 * 48,
    "rows and a part of one": lambda i, j: 48 * i + j < 1000,
    "a triangle": lambda i, j: j <= i,
    "a triangle in a box": lambda i, j: (j < i) & (i < 50) & (j >= 5),
    "a band": lambda i, j: (j <= i) & (j > i - 5),
    "columns by steps": lambda i, j: 2 * j + i < 60,
    "nothing": lambda i, j: i + j > 1000,
    "one element": lambda i, j: (i + j <= 0),
}


def pair(kernel):
    """A kernel of two tiles and a mask of their axes, stored whole."""
    def of(mask):
        def run(x, y):
            i, j = nl.arange(P)[:, None], nl.arange(N)[None, :]
            return kernel(x, y, mask(i, j))
        return of_tiles(run)
    return of


class Masks(KernelCase):
    def each(self, kernel, want, left_out=False):
        """want(x, y, keep) for each mask; clean under the checks. left_out: of what is stored a
        part is left out, which they find."""
        x, y = data(P, N), data(P, N)
        for name, mask in MASKS.items():
            with self.subTest(name):
                run = pair(kernel)(mask)
                self.same(run(x, y), want(x, y, mask(I, J)))
        if left_out:
            found = run.check(x, y, checks="uninit,race,psum,overlap")
            self.assertEqual([f.check for f in found], ["uninit"])
            self.assertIn("stores elements that nothing has written", found[0].text)
        self.clean(run, x, y, ignore=("range", "uninit" if left_out else ""))

    def test_new_tiles_are_zero_elsewhere(self):
        for call, value in (
                (lambda x, y, m: nl.add(x, y, mask=m), lambda x, y: x + y),
                (lambda x, y, m: nl.exp(x, mask=m), lambda x, y: np.exp(x)),
                (lambda x, y, m: nl.multiply(x, y[:, 0:1], mask=m), lambda x, y: x * y[:, :1]),
                (lambda x, y, m: nl.add(x, 2.0, mask=m), lambda x, y: x + 2),
                (lambda x, y, m: nisa.tensor_tensor(x, y, op=nl.subtract, mask=m),
                 lambda x, y: x - y),
                (lambda x, y, m: nisa.tensor_scalar(x, np.multiply, 3.0, mask=m),
                 lambda x, y: 3 * x),
                (lambda x, y, m: nisa.activation(np.exp, x, mask=m), lambda x, y: np.exp(x)),
                (lambda x, y, m: nl.copy(x, mask=m), lambda x, y: x),
                (lambda x, y, m: nisa.iota(nl.arange(P)[:, None] + nl.arange(N)[None, :],
                                           nl.float32, mask=m), lambda x, y: I + J),
                (lambda x, y, m: nisa.memset((P, N), 5.0, nl.float32, mask=m),
                 lambda x, y: 5 + 0 * x),
                (lambda x, y, m: nl.where(nl.greater(x, 0.0), x, y, mask=m),
                 lambda x, y: np.where(x > 0, x, y)),
                (lambda x, y, m: nisa.affine_select(nl.mgrid[0:P, 0:N][0] > nl.mgrid[0:P, 0:N][1],
                                                    x, -1.0, mask=m),
                 lambda x, y: np.where(I > J, x, -1))):
            self.each(call, lambda x, y, keep: np.where(keep, value(x, y), 0), left_out=True)

    def test_a_destination_keeps_the_rest(self):
        def by_dst(x, y, m):
            nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.add, mask=m)
            nisa.tensor_copy(dst=x, src=y, mask=m)
            return x
        self.each(by_dst, lambda x, y, keep: np.where(keep, 2 * x, x))

        def assigned(x, y, m):
            y[...] = nl.exp(x, mask=m)
            return y
        self.each(assigned, lambda x, y, keep: np.where(keep, np.exp(x), y))

        def copied(x, y, m):  # to another type, which no instruction writes at once
            z = nl.copy(y, dtype=nl.bfloat16)
            w = nl.copy(x, dtype=nl.float16)
            z[...] = nl.multiply(w, 0.0, mask=m)
            return nl.multiply(z, 0.0)
        self.each(copied, lambda x, y, keep: 0 * x)

        def filled(x, y, m):
            nisa.memset(dst=y, value=7.0, mask=m)
            return y
        self.each(filled, lambda x, y, keep: np.where(keep, 7, y))

    def test_a_copy_of_another_type_keeps_the_rest(self):
        def kernel(x, y, m):
            z = nl.full((P, N), 3, nl.bfloat16, buffer=nl.sbuf)
            z[...] = nl.copy(nl.add(nl.multiply(x, 0.0), 1.0), dtype=nl.float16, mask=m)
            return nl.copy(z, dtype=nl.float32)
        self.each(kernel, lambda x, y, keep: np.where(keep, 1, 3))

    def test_transfers(self):
        x = data(P, N)
        for name, mask in MASKS.items():
            @nki.jit
            def kernel(x, y, z):
                i, j = nl.arange(P)[:, None], nl.arange(N)[None, :]
                out = nl.ndarray((P, N), nl.float32, buffer=nl.shared_hbm)
                nl.store(out, nl.load(x[i, j], mask=mask(i, j)))
                nl.store(y[i, j], nl.load(x), mask=mask(i, j))
                nisa.dma_copy(dst=z[i, j], src=x[i, j], mask=mask(i, j))
                return out
            with self.subTest(name):
                y, z = np.full((P, N), 5, np.float32), np.full((P, N), 6, np.float32)
                keep = mask(I, J)
                self.same(kernel(x, y, z), np.where(keep, x, 0))
                self.same(y, np.where(keep, x, 5))
                self.same(z, np.where(keep, x, 6))

    def test_elements_that_do_not_exist_are_left_out(self):
        x = data(50 * 37)

        @nki.jit
        def kernel(x):
            out = nl.ndarray((50 * 37,), nl.float32, buffer=nl.shared_hbm)
            i, j = nl.arange(64)[:, None], nl.arange(37)[None, :]
            flat, to = x.reshape((1, 50 * 37)), out.reshape((1, 50 * 37))
            for n in range(2):
                at = n * 1000 + 37 * i + j
                keep = (37 * i + j < 1000) & (at < 50 * 37)
                nl.store(to[0, at], nl.add(nl.load(flat[0, at], mask=keep), 1.0), mask=keep)
            return out
        self.same(kernel(x), x + 1)
        self.clean(kernel, x)

    def test_places_are_those_of_the_whole(self):
        x = np.arange(P * N, dtype=np.float32).reshape(P, N)
        where = (I * 5 + J * 7) % N

        def gather(x, i):
            p, q = nl.mgrid[0:P, 0:N]
            return nl.gather_flattened(x, i, mask=(q >= 4) & (q < 20))
        self.same(of_tiles(gather)(x, where.astype(np.uint32)),
                  np.where((J >= 4) & (J < 20), np.take_along_axis(x, where, 1), 0))

        def largest(x):
            p, q = nl.mgrid[0:P, 0:N]
            return nisa.max8(x, mask=(p >= 32) & (q < 5 + 6))
        self.same(of_tiles(largest, (P, 8))(x)[32:], np.sort(x[32:, :11])[:, :2:-1])
        self.same(of_tiles(largest, (P, 8))(x)[:32], np.zeros((32, 8)))

        def statistics(x):
            p, q = nl.mgrid[0:P, 0:N]
            return nisa.bn_aggr(nisa.bn_stats(x, mask=q < 4))
        self.same(of_tiles(statistics, (P, 2))(x)[:, 0], x[:, :4].mean(1))

    def test_a_mask_of_as_many_elements_as_moving_has_bounds_them(self):
        x, y = data(P, 32), data(P, N)
        want = x.T @ y
        want[:, 20:] = 0

        def once(a, b):
            return nisa.nc_matmul(a, b, mask=19 - nl.arange(N)[None, :] >= 0)

        def twice(a, b):
            s = nl.zeros((nl.par_dim(32), N), dtype=nl.float32, buffer=nl.psum)
            for _ in range(2):
                s += nisa.nc_matmul(a, b, mask=nl.arange(N)[None, :] < 20)
            return s

        def of_language(a, b):
            return nl.matmul(a, b, transpose_x=True, mask=nl.arange(N)[None, :] < 20)
        for run, times in ((once, 1), (twice, 2), (of_language, 1)):
            with self.subTest(run.__name__):
                kernel = of_tiles(run, (32, N))
                self.same(kernel(x, y), times * want, rtol=1e-4, atol=1e-4)

    def test_sums_over_the_partitions_that_a_mask_leaves(self):
        x, y = data(128, 64), data(128, 32)

        def kernel(call):
            def run(a, b):
                k = nl.arange(128)[:, None]
                return nl.copy(call(a, b, k < 70))
            return of_tiles(run, (64, 32))
        for call in (lambda a, b, m: nisa.nc_matmul(a, b, mask=m),
                     lambda a, b, m: nl.matmul(a, b, transpose_x=True, mask=m)):
            self.same(kernel(call)(x, y), x[:70].T @ y[:70], 1e-4, 1e-4)

        def nothing(a, b):
            s = nl.zeros((64, 32), nl.float32, buffer=nl.psum)
            for n in range(3):
                s += nl.matmul(a, b, transpose_x=True, mask=n < 2)
            return nl.copy(s)
        self.same(of_tiles(nothing, (64, 32))(x, y), 2 * x.T @ y, 1e-4, 1e-4)

    def test_a_reduction_of_nothing_changes_nothing(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray((128, 2), nl.float32, buffer=nl.shared_hbm)
            t, top = nl.load(x), nl.full((128, 2), 7.0, nl.float32, buffer=nl.sbuf)
            i, f = nl.arange(128)[:, None], nl.arange(64)[None, :]
            for k in range(2):
                top[i, k] = nisa.tensor_reduce(np.max, t[i, f], axis=(1,), dtype=np.float32,
                                               mask=(k > 0))
            nl.store(out, top)
            return out
        x = data(128, 64)
        self.same(kernel(x), np.stack([np.full(128, 7.0), x.max(1)], 1))

    def test_what_has_no_meaning_here_is_refused(self):
        x, y = data(P, N), data(P, N)
        for name, call in (
                ("nc_matmul", lambda a, b, i, j: nisa.nc_matmul(a, b, mask=j < 20)),
                ("nl.matmul", lambda a, b, i, j: nl.matmul(a, nl.transpose(b), mask=i < 20)),
                ("tensor_reduce", lambda a, b, i, j: nisa.tensor_reduce(np.add, a, 1,
                                                                         mask=i < j)),
                ("nl.softmax", lambda a, b, i, j: nl.softmax(a, 1, mask=i < j)),
                ("nl.broadcast_to", lambda a, b, i, j: nl.broadcast_to(a[:, 0:1], (P, N),
                                                                      mask=i < 9)),
                ("nc_find_index8", lambda a, b, i, j: nisa.nc_find_index8(a, b[:, 0:8],
                                                                           mask=j > 2)),
                ("dma_transpose", lambda a, b, i, j: nisa.dma_transpose(a, mask=i < 9))):
            def run(a, b):
                return call(a, b, nl.arange(P)[:, None], nl.arange(N)[None, :])
            with self.subTest(name), self.assertRaisesRegex(NotBuilt, name + ": mask"):
                of_tiles(run)(x, y)



class OtherShapes(KernelCase):
    """A mask of the dimensions of one operand, where another has as many elements in others."""
    X, Y = data(P, 48), data(P, 48)
    KEEP = np.zeros((P, 4, 12), bool)
    KEEP[:40, 1:3, 2:9] = True

    @staticmethod
    def mask():
        i, j, k = (nl.arange(n) for n in KEEP_SHAPE)
        i, j, k = i[:, None, None], j[None, :, None], k[None, None, :]
        return (i < 40) & (j >= 1) & (j < 3) & (k >= 2) & (k < 9)

    def test_the_masks_dimensions_are_those_of_the_result(self):
        want = np.where(self.KEEP, (self.X + self.Y).reshape(KEEP_SHAPE), 0).reshape(P, 48)
        for name, call in (("first", lambda a, b: nl.add(a.reshape(KEEP_SHAPE), b,
                                                         mask=self.mask())),
                           ("second", lambda a, b: nl.add(a, b.reshape(KEEP_SHAPE),
                                                          mask=self.mask())),
                           ("both", lambda a, b: nisa.tensor_tensor(
                               a.reshape(KEEP_SHAPE), b, op=np.add, mask=self.mask()))):
            with self.subTest(name):
                got = of_tiles(lambda a, b: call(a, b).reshape((P, 48)))(self.X, self.Y)
                self.same(got, want)

    def test_a_mask_of_other_dimensions_is_refused(self):
        for call in (lambda a: nl.add(a, 1.0, mask=self.mask()),
                     lambda a: nl.copy(a, mask=nl.arange(12)[None, None, :] < 5)):
            with self.assertRaisesRegex(
                    KernelError, r"the mask has axes of sizes \[\d+, \d+, 12\], and the result "
                    r"the shape \[64, 48\]"):
                of_tiles(call)(self.X)


KEEP_SHAPE = (P, 4, 12)


if __name__ == "__main__":
    unittest.main()
