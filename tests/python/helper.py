"""What the tests share."""
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

rng = np.random.default_rng(20)


def data(*shape, low=-2.0, high=2.0):
    """Uniform float32."""
    return rng.uniform(low, high, shape).astype(np.float32)


class KernelCase(unittest.TestCase):
    def same(self, got, want, rtol=1e-5, atol=1e-6):
        got = got.astype(np.float64)
        np.testing.assert_allclose(got, np.asarray(want, np.float64), rtol=rtol, atol=atol)

    def clean(self, kernel, *args, ignore=("range",), schedules=2):
        found = [f for f in kernel.check(*args, schedules=schedules) if f.check not in ignore]
        self.assertEqual(found, [], "\n".join(map(str, found)))


def of_tiles(function, shape=None, dtype=nl.float32):
    """A kernel that stores function(tiles of its arguments) in a tensor of that shape and type, the
    first argument's shape without."""
    @nki.jit
    def kernel(*arrays):
        result = function(*[nl.load(a) for a in arrays])
        out = nl.ndarray(shape or arrays[0].shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out
    return kernel


def counting_down(n):
    """(a register that holds n, a function that makes it one less)."""
    left, one = nl.full((1, 1), n, nl.int32), nl.full((1, 1), 1, nl.int32)

    def less(r):
        nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
        nisa.register_load(r, left)
        return r
    return nisa.register_alloc(n), less
