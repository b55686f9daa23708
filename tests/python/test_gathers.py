"""Views whose place is found in other ways: .ap of views, index tiles, ranges, slices past the end,
masks as subscripts, tensors without dimensions."""
import unittest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from helper import KernelCase, data

import nki
import soma
from soma.errors import KernelError, NotBuilt


def kernel_of(call, shape):
    """A kernel that stores call(tensors in HBM), a tile."""
    @nki.jit
    def kernel(*arrays):
        out = nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm)
        result = call(*arrays, *([out] if call.__code__.co_argcount > len(arrays) else []))
        if result is not None:
            nl.store(out, nl.copy(result))
        return out
    return kernel


class Patterns(KernelCase):
    def test_an_index_scales_the_step_of_the_views_dimension(self):
        x = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
        r, c, f = np.arange(8)[:, None], np.arange(16)[None, :], x.ravel()

        def one(k):
            t = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
            nisa.memset(dst=t, value=k)
            return {"scalar_offset": t}

        def rows():
            t = nl.ndarray((8, 1), nl.uint32, buffer=nl.sbuf)
            nisa.iota(t, [[1, 1]], 1, 2)
            return {"vector_offset": t, "indirect_dim": 0}
        odd = 1 + 2 * r
        for view, want in (
                (lambda x: x[:, 32:64].ap([[96, 8], [1, 16]], **one(3)), 32 + 3 * 96 + 96 * r + c),
                (lambda x: x[:, 32:64].ap([[96, 8], [1, 16]], **rows()), 32 + odd * 96 + c),
                (lambda x: x[::2].ap([[192, 8], [1, 16]], **one(3)), 3 * 192 + 192 * r + c),
                (lambda x: x[::2].ap([[192, 8], [1, 16]], **rows()), odd * 192 + c),
                (lambda x: x[8:, ::2].ap([[96, 8], [2, 16]], indirect_dim=1, **one(3)),
                 8 * 96 + 3 * 2 + 96 * r + 2 * c),
                (lambda x: x.permute((1, 0)).ap([[96, 8], [1, 16]], **one(3)), 3 + 96 * r + c),
                (lambda x: x.reshape((32, 192)).ap([[192, 8], [1, 16]], **one(3)),
                 3 * 192 + 192 * r + c)):
            self.same(kernel_of(lambda x: nl.load(view(x)), (8, 16))(x), f[want], 0, 0)
        for view, want in (
                (lambda t: t[0:8, ::2].ap([[96, 8], [2, 16]], indirect_dim=1, **one(3)),
                 3 * 2 + 96 * r + 2 * c),
                (lambda t: t.reshape((64, 8, 1, 12)).ap([[96, 8], [1, 16]], indirect_dim=2,
                                                        **one(3)),
                 3 * 12 + 96 * r + c),
                (lambda t: t.reshape((64, 8, 12)).ap([[96, 8], [1, 16]], indirect_dim=1, **one(3)),
                 3 * 12 + 96 * r + c)):
            self.same(kernel_of(lambda x: nl.copy(view(nl.load(x))), (8, 16))(x), f[want], 0, 0)


class Indices(KernelCase):
    def test_an_index_tile_for_any_dimension_after_numbers(self):
        x = data(3, 40, 7, 5)
        order = np.random.default_rng(1).permutation(7).astype(np.int32).reshape(7, 1)
        i, j4 = order.ravel(), np.arange(4)
        for view, want in (
                (lambda x, t: x[0, 3, t], x[0, 3, i]), (lambda x, t: x[2, t], x[2, i]),
                (lambda x, t: x[1, t, 2], x[1, i, 2]), (lambda x, t: x[1, 3, t, 2], x[1, 3, i, 2]),
                (lambda x, t: x[1, t, :, 2], x[1, i, :, 2]),
                (lambda x, t: x[1, t, 1:4, ::2], x[1, i, 1:4, ::2]),
                (lambda x, t: x[1, 3, t.as_tile(), nl.arange(4)[None, :]], x[1, 3][i][:, j4])):
            kernel = kernel_of(lambda x, t: nl.load(view(x, nl.load(t))), want.shape + (1,) *
                               (want.ndim < 2))
            self.same(kernel(x, order).reshape(want.shape), want, 0, 0)
        for view in (lambda x, t: x[:, t], lambda x, t: x[1, nl.arange(7)[:, None], t],
                     lambda x, t: x[t, nl.arange(7)[:, None], 0]):
            with self.assertRaisesRegex(NotBuilt, "axis 0 of the result alone"):
                kernel_of(lambda x, t: nl.load(view(x, nl.load(t))), (7, 5))(x, order)

    def test_an_index_stays_in_its_dimension(self):
        x = data(6, 10, 7, 8)
        for view, n in ((lambda x, t: x[1, t, 2], 10), (lambda x, t: x[2, 3, t], 7),
                        (lambda x, t: x.reshape((60, 56))[0:20][t, 5:9], 20),
                        (lambda x, t: x.reshape((60, 56))[t, 3:9], 60),
                        (lambda x, t: x.reshape((2, 30, 56))[1, t], 30)):
            def both(x, t):
                return nl.load(view(x, nl.load(t)))
            for last in (n - 1, n, -1):
                t = np.array([[1], [0], [last]], np.int32)
                want = view(x, t.ravel() % n)
                kernel = kernel_of(both, want.shape)
                if last == n - 1:
                    self.same(kernel(x, t), want, 0, 0)
                    continue
                with self.assertRaisesRegex(soma.SomaFault,
                                            "is %d: arrays_0 has 0..%d " % (last, n - 1)):
                    kernel(x, t)

    def test_indices_of_several_dimensions_of_one_tensor(self):
        x, t = data(6, 10, 8), np.array([[1], [5], [3]], np.int32)
        ran = 0
        i = t.ravel()
        for views in ((lambda x, t: x[1, t], lambda x, t: x.reshape((60, 8))[t]),
                      (lambda x, t: x.reshape((60, 8))[t], lambda x, t: x[1, t]),
                      (lambda x, t: x.reshape((30, 16))[t, 8:16], lambda x, t: x[4, t]),
                      (lambda x, t: x.reshape((3, 20, 8))[2, t], lambda x, t: x[4, t])):
            try:
                got = kernel_of(lambda x, t: nl.add(*(nl.load(v(x, nl.load(t))).reshape((3, 8))
                                                      for v in views)), (3, 8))(x, t)
            except NotBuilt as e:
                self.assertRegex(str(e), "is indexed by rows of")
                continue
            self.same(got, views[0](x, i) + views[1](x, i), 0, 0)
            ran += 1
        self.assertEqual(ran, 3)

    def test_the_index_vector_of_a_transpose_is_unsigned(self):
        x = data(300, 64).astype(np.float16)

        def kernel(x, index):
            t = nl.ndarray((64, 128), nl.float16, buffer=nl.sbuf)
            nisa.dma_transpose(dst=t, src=x.ap([[64, 128], [1, 64]], vector_offset=nl.load(index),
                                               indirect_dim=0))
            return t
        i = np.random.default_rng(1).integers(0, 300, (128, 1))
        self.same(kernel_of(kernel, (64, 128))(x, i.astype(np.uint32)), x[i.ravel()].T, 0, 0)
        with self.assertRaisesRegex(KernelError, "index vector is int32: it must be uint32"):
            kernel_of(kernel, (64, 128))(x, i.astype(np.int32))

    def test_a_range_is_a_slice(self):
        x = data(40, 7, 5)
        for view, want in ((lambda x: x[nl.affine_range(8), ...], x[:8]),
                           (lambda x: x[nl.affine_range(2, 30, 3)], x[2:30:3]),
                           (lambda x: x[:, nl.affine_range(3)], x[:, :3]),
                           (lambda x: x[nl.affine_range(9), nl.affine_range(1, 6)], x[:9, 1:6]),
                           (lambda x: x[nl.affine_range(9), :, nl.affine_range(2)], x[:9, :, :2]),
                           (lambda x: x[nl.sequential_range(4), 2], x[:4, 2])):
            self.same(kernel_of(lambda x: nl.load(view(x)), want.shape)(x), want, 0, 0)
        with self.assertRaisesRegex(KernelError, r"range\(0, 41\) of dimension 0, which has 40"):
            kernel_of(lambda x: nl.load(x[nl.affine_range(41)]), (40, 7, 5))(x)
        with self.assertRaisesRegex(NotBuilt, "ranges are taken beside slices"):
            kernel_of(lambda x: nl.load(x[nl.affine_range(3), 1, nl.affine_range(3)]), (3, 3))(x)


class PastTheEnd(KernelCase):
    def test_a_slice_keeps_its_shape_under_a_mask(self):
        x = data(200, 700)
        for slices in True, False:
            @nki.jit
            def kernel(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                i, j = nl.mgrid[0:128, 0:512]
                for a in range(0, 256, 128):
                    for b in range(0, 1024, 512):
                        keep = (a + i < 200) & (b + j < 700)
                        part = (slice(a, a + 128), slice(b, b + 512)) if slices else \
                            (nl.ds(a, 128), nl.ds(b, 512))
                        t = nl.load(x[part], mask=keep)
                        assert t.shape == (128, 512)
                        nl.store(out[part], nl.exp(t, mask=keep), mask=keep)
                return out
            self.same(kernel(x), np.exp(x))
            self.clean(kernel, x)

    def test_without_a_mask_a_slice_is_pythons(self):
        x = data(40, 30)
        self.same(kernel_of(lambda x: nl.load(x[32:64, 10:99]), (8, 20))(x), x[32:, 10:])
        with self.assertRaisesRegex(KernelError, "runs from 32 to 63: the dimension has 40"):
            kernel_of(lambda x: nl.load(x[nl.ds(32, 32)]), (32, 30))(x)
        i = nl.arange(32)[:, None]
        with self.assertRaisesRegex(KernelError, "runs from 32 to 63: the dimension has 40"):
            kernel_of(lambda x: nl.load(x[32:64], mask=i < 32), (32, 30))(x)


class Subscripts(KernelCase):
    def test_masks_of_operands(self):
        a, b = data(64, 96), data(64, 80)
        i, j, q = nl.arange(64)[:, None], nl.arange(96)[None, :], nl.arange(80)[None, :]
        want = np.zeros((96, 80), np.float32)
        want[:65, :41] = a.T[:65] @ b[:, :41]
        self.same(kernel_of(lambda a, b: nl.matmul(nl.load(a)[j <= 64], nl.load(b)[q <= 40],
                                                   transpose_x=True), (96, 80))(a, b),
                  want, 1e-4, 1e-4)
        self.same(kernel_of(lambda a, b: nisa.nc_matmul(nl.load(a)[i < 50], nl.load(b)),
                            (96, 80))(a, b), a.T[:, :50] @ b[:50], 1e-4, 1e-4)

        def twice(a, b):
            s = nl.zeros((96, 80), nl.float32, buffer=nl.psum)
            s += nl.matmul(nl.load(a), nl.load(b), transpose_x=True)
            s += nisa.nc_matmul(nl.load(a)[j <= 64], nl.load(b)[q <= 40])
            return s
        self.same(kernel_of(twice, (96, 80))(a, b), want + a.T @ b, 1e-4, 1e-4)

    def test_masks_of_tensors_and_assignments(self):
        a = data(64, 96)
        i, j = nl.arange(64)[:, None], nl.arange(96)[None, :]
        cut = np.where(np.arange(96) < 40, a, 0)
        self.same(kernel_of(lambda a: nl.load(a[i, j][j < 40]), (64, 96))(a), cut)

        def stored(a, out):
            nl.store(out[i, j], nl.multiply(nl.load(a), 0.0))
            nl.store(out[i, j][j < 40], nl.load(a))
        self.same(kernel_of(stored, (64, 96))(a), cut)

        def assigned(a):
            t = nl.load(a)
            t[i, j][j >= 40] = 0.0
            t[j >= i] = nl.multiply(t, 2.0)
            return t
        p, q = np.indices((64, 96))
        self.same(kernel_of(assigned, (64, 96))(a), np.where(q >= p, 2 * cut, cut))
        with self.assertRaisesRegex(NotBuilt, "give mask= to the call"):
            kernel_of(lambda a: nl.exp(nl.load(a)[j < 40]), (64, 96))(a)


class NoDimensions(KernelCase):
    def test_a_tensor_without_dimensions(self):
        x, s = data(4, 5), np.array(3.0, np.float32)
        self.same(kernel_of(lambda x, s: nl.multiply(nl.load(x), nl.load(s)), (4, 5))(x, s), 3 * x)

        @nki.jit
        def kernel(s):
            assert s.shape == () and s.ndim == 0 and s.size == 1
            out = nl.ndarray((), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.add(nl.load(s[...]), 1.0))
            nisa.dma_copy(dst=s, src=nl.multiply(nl.load(s.reshape((1, 1))), 2.0))
            return out
        out = kernel(s)
        self.assertEqual((out.shape, float(out), float(s)), ((), 4.0, 6.0))


if __name__ == "__main__":
    unittest.main()
