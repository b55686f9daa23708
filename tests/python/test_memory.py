"""Memory that kernels place or begin themselves: zeros in PSUM, tiles at addresses."""
import unittest

import neuronxcc.nki as old
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as oisa
import numpy as np
from helper import KernelCase, data

import nki
import nki.isa as nisa
import nki.language as nl
import soma


def summed(make, add=lambda k: True, columns=(slice(0, 100),), loop=range):
    """A kernel that sums in what make(shape) gives, by matmuls with accumulate=add(k)."""
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((64, 100), nl.float32, buffer=nl.shared_hbm)
        s = make((64, 100))
        p = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        q = nl.ndarray((128, 100), nl.float32, buffer=nl.sbuf)
        for k in loop(2):
            nisa.dma_copy(dst=p, src=x[nl.ds(k * 128, 128), :])
            nisa.dma_copy(dst=q, src=y[nl.ds(k * 128, 128), :])
            for c in columns:
                nisa.nc_matmul(s[:, c], p, q[:, c], accumulate=add(k))
        t = nl.ndarray((64, 100), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=t, src=s)
        nisa.dma_copy(dst=out, src=t)
        return out
    return kernel


class ZerosInPsum(KernelCase):
    def zeros(self, shape):
        return nl.zeros(shape, nl.float32, buffer=nl.psum)

    def test_accumulate_true_adds_to_zeros(self):
        a, b = data(256, 64), data(256, 100)
        for make in (self.zeros, lambda s: nl.full(s, 0.0, nl.float32, buffer=nl.psum)):
            kernel = summed(make)
            self.same(kernel(a, b), a.T @ b, 1e-4, 1e-4)
            self.assertNotIn("memset", kernel.source(a, b))
            self.clean(kernel, a, b)
            self.same(summed(make, lambda k: None)(a, b), a.T @ b, 1e-4, 1e-4)
            self.same(summed(make, lambda k: k > 0)(a, b), a.T @ b, 1e-4, 1e-4)

    def test_accumulate_true_adds_to_what_other_columns_overlap(self):
        a, b = data(256, 64), data(256, 100)
        want = a.T @ b
        want[:, 40:60] *= 2
        kernel = summed(self.zeros, columns=(slice(0, 60), slice(40, 100)))
        self.same(kernel(a, b), want, 1e-4, 1e-4)

    def test_what_matmuls_leave_is_zero_whatever_its_partition_and_type(self):
        for rows, dtype in ((10, nl.float32), (64, nl.float32), (64, nl.bfloat16)):
            @nki.jit(platform_target="trn3")
            def kernel(x, y):
                out = nl.ndarray((64, 100), dtype, buffer=nl.shared_hbm)
                s = nl.zeros((64, 100), nl.float32, buffer=nl.psum).view(dtype)
                nisa.nc_matmul(s[0:rows, 20:60], nl.load(x)[:, 0:rows], nl.load(y)[:, 20:60],
                               accumulate=True)
                t = nl.ndarray((64, 100), dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=t, src=s[0:64, 0:100])
                nisa.dma_copy(dst=out, src=t)
                return out
            a, b = np.round(data(128, 64)), np.round(data(128, 100))
            want = np.zeros((64, 100))
            want[:rows, 20:60] = (a.T @ b)[:rows, 20:60]
            self.same(kernel(a, b).astype(np.float32), want, 1e-6, 1e-4)

    def test_accumulate_true_in_a_loop_at_run_time(self):
        a, b = data(256, 64), data(256, 100)
        for add in (True, None):
            kernel = summed(self.zeros, lambda k: add, loop=nl.dynamic_range)
            self.same(kernel(a, b), a.T @ b, 1e-4, 1e-4)

    def test_adding_to_ones_and_to_nothing(self):
        a, b = data(256, 64), data(256, 100)
        ones = summed(lambda s: nl.full(s, 1.0, nl.float32, buffer=nl.psum))
        self.same(ones(a, b), 1 + a.T @ b, 1e-4, 1e-4)
        with self.assertRaisesRegex(soma.KernelError, "nc_matmul dst: reads byte 0 .*, which "
                                                      "nothing has written"):
            summed(lambda s: nl.ndarray(s, nl.float32, buffer=nl.psum))(a, b)

    def test_what_a_mask_leaves_out_and_what_is_written_in_part_is_zero(self):
        @old.jit
        def masked(x):
            y = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
            i, j = nl.arange(128)[:, None], nl.arange(128)[None, :]
            a = nl.load(x)
            for g in nl.affine_range(2):
                s = nl.ndarray((nl.par_dim(128), 128), nl.float32, buffer=nl.psum)
                s += oisa.nc_matmul(a, a, mask=(g * 128 < 128))
                t = nl.copy(s)
                nl.store(y[i, j], value=t, mask=(g * 128 < 128))
            return y

        @nki.jit
        def part(x):
            out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
            t = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            p = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            u = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            nisa.tensor_copy(p[0:64], t[0:64])
            nisa.tensor_copy(u, p)
            nisa.dma_copy(dst=out, src=u)
            return out
        x = data(128, 128)
        with self.assertWarnsRegex(UserWarning, "tile s .* it reads zeros here"):
            self.same(masked(x), x.T @ x, 1e-4, 1e-4)
        with self.assertWarnsRegex(UserWarning, r"tile p \(element \[64, 0\]\).* reads zeros here"):
            got = part(x)
        self.same(got, np.concatenate((x[:64], 0 * x[64:])), 0, 0)


if __name__ == "__main__":
    unittest.main()
