"""Arrays of the host as arguments and results: tensors of torch that are written, arrays without
dimensions and with many, conversions."""
import unittest

import neuronxcc.nki.language as onl
import numpy as np
from helper import KernelCase, data

import nki
import nki.isa as nisa
import nki.language as nl
import soma

try:
    import torch
except ImportError:
    torch = None


@nki.jit
def update(cache, x):
    """Columns 4 to 7 of cache = x."""
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=cache[:, 4:8], src=t)
    return cache


int16, uint8 = np.int16, np.uint8  # as torch.int16


class StandIn:
    """What is used of a tensor of torch, over an array of bits."""

    def __init__(self, bits, dtype="torch.bfloat16"):
        self.bits, self.dtype, self.shape = bits, dtype, bits.shape

    def detach(self):
        return self

    cpu = detach

    def view(self, dtype):
        return StandIn(self.bits.view(dtype), np.dtype(dtype).name)

    def numpy(self):
        if "bfloat16" in self.dtype or "float8" in self.dtype:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.bits


class Written(KernelCase):
    def test_a_stand_in_for_torch(self):
        for dtype, one, bits in (("torch.bfloat16", 0x3F80, np.uint16),
                                 ("torch.float8_e5m2", 0x3C, np.uint8)):
            memory = np.zeros((64, 32), bits)
            for cache in (memory[:, 0:16], memory[:, ::2]):
                memory[...] = 0
                update(StandIn(cache, dtype), StandIn(np.full((64, 4), one, bits), dtype))
                want = np.zeros((64, 16), bits)
                want[:, 4:8] = one
                np.testing.assert_array_equal(cache, want)
                self.assertEqual(np.count_nonzero(memory), 64 * 4)

    def test_torch(self):
        if torch is None:
            raise unittest.SkipTest("torch is not installed (python3-torch)")
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32):
            base = torch.zeros(64, 32, dtype=dtype)
            for cache in (torch.zeros(64, 16, dtype=dtype), base[:, 8:24], base[:, ::2],
                          torch.zeros(16, 64, dtype=dtype).t()):
                update(cache, torch.ones(64, 4, dtype=dtype))
                want = torch.zeros(64, 16, dtype=dtype)
                want[:, 4:8] = 1
                self.assertTrue(torch.equal(cache, want), (dtype, cache.stride()))
                base.zero_()
        grown = torch.zeros(64, 16, requires_grad=True)
        with self.assertRaisesRegex(soma.KernelError, "cache: .* keeps its gradient"):
            update(grown, torch.ones(64, 4))
        with torch.no_grad():
            update(grown, torch.ones(64, 4))
        self.assertEqual(float(grown.detach()[0, 4]), 1.0)
        scalar = double(torch.tensor(3.0, dtype=torch.bfloat16))
        self.assertEqual((tuple(scalar.shape), float(scalar)), ((), 6.0))

    def test_views_of_numpy(self):
        base = np.zeros((64, 32), np.float32)
        for cache in (base[:, 0:16], base[:, ::2], base[:, 31::-2], np.zeros((16, 64)).T.astype(
                np.float32, order="F")):
            update(cache, np.ones((64, 4), np.float32))
            self.assertEqual((cache[:, 4:8].min(), np.count_nonzero(cache)), (1.0, 256))
            base[...] = 0

    def test_what_cannot_be_written_is_refused(self):
        class Copies:
            shape, dtype = (64, 16), np.dtype(np.float32)

            def __array__(self, *_args, **_kwargs):
                return np.zeros((64, 16), np.float32)
        fixed = np.zeros((64, 16), np.float32)
        fixed.flags.writeable = False
        for cache in (Copies(), fixed, np.broadcast_to(np.float32(0), (64, 16))):
            with self.assertRaisesRegex(soma.KernelError, "cache: the kernel writes it, and"):
                update(cache, np.ones((64, 4), np.float32))


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    nl.store(out, t)
    return out


def through(a):
    """A kernel that gives a tensor by another one of no dimensions."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((), dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((1, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[()])
        nisa.dma_copy(dst=out.reshape((1, 1)), src=t)
        return out, x
    return kernel(a)


class OnlyDlpack:
    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **_options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


class OnlyArray:
    """As an array of jax: with a shape and a type, and the memory as a copy."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values.copy()


class Named(OnlyArray):
    """One whose library makes arrays."""

    def __array_namespace__(self, api_version=None):
        return type("library", (), {"asarray": staticmethod(Named)})


class Others(KernelCase):
    """Objects of other libraries in and out."""

    def test_in(self):
        x, kernel = data(8, 16), nki.jit(double.function)
        for kind in (OnlyDlpack, OnlyArray, Named):
            got = kernel(kind(x))
            self.assertIs(type(got), Named if kind is Named else np.ndarray)
            self.same(np.asarray(got), x * 2)
            self.assertEqual(kernel.check(kind(x)), [])
            with self.assertRaisesRegex(soma.KernelError, "cache: the kernel writes it, and"):
                update(kind(np.zeros((64, 16), np.float32)), data(64, 4))
        self.assertEqual(len(kernel.builds), 1)  # all have one shape and type
        self.same(soma.device().array(OnlyDlpack(x)).numpy(), x)
        self.same(soma.device().array(OnlyArray(x)).numpy(), x)

    def test_out(self):
        x = data(8, 16)
        self.same(np.from_dlpack(double(x)), x * 2)
        on_device = soma.device().array(x)
        self.same(np.from_dlpack(double(on_device)), x * 2)
        if torch is not None:
            self.same(torch.from_dlpack(double(on_device)).numpy(), x * 2)

    def test_what_numpy_does_not_take(self):
        class Elsewhere(OnlyDlpack):
            def __dlpack__(self, **_options):
                raise BufferError("the memory is on another device")
        with self.assertRaisesRegex(TypeError, "Elsewhere by DLPack: the memory is on another"):
            double(Elsewhere(data(4, 4)))


class Dimensions(KernelCase):
    def test_none(self):
        a = np.array(3.0, np.float32)
        got = double(a)
        self.assertEqual((got.shape, float(got)), ((), 6.0))
        self.assertEqual([(x.shape, float(x)) for x in through(a)], [((), 3.0)] * 2)
        with self.assertRaisesRegex(soma.KernelError, "a tile of no dimensions in sbuf"):
            nki.jit(lambda x: nl.ndarray((), dtype=x.dtype, buffer=nl.sbuf))(a)

    def test_more_than_eight(self):
        a = np.zeros((2,) * 9, np.float32)
        with self.assertRaisesRegex(soma.KernelError, r"test_host.py:\d+: tensor a has 9 "
                                                      r"dimensions: a tensor in HBM has at most 8"):
            double(a)

        @nki.jit
        def result(x):
            out = nl.ndarray((2,) * 9, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out.reshape(x.shape), src=x)
            return out
        with self.assertRaisesRegex(soma.KernelError, "tensor out has 9 dimensions"):
            result(data(2, 256))
        eight = data(*(2,) * 8)
        self.same(double(eight), 2 * eight, 0, 0)

    def test_views_and_tiles_of_nine(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((2,) * 9, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t.reshape(x.shape), src=x.reshape((2,) * 9).reshape(x.shape))
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out, src=t.reshape(x.shape))
            return out
        x = data(2, 256)
        self.same(kernel(x), x + 1, 0, 1e-6)


class Casts(unittest.TestCase):
    def test_arrays_of_the_host(self):
        x = np.array([[0.1, 1.0], [256.0, -3.0]])
        for language in (nl, onl):
            b = language.static_cast(x, language.bfloat16)
            want = soma.array(x.astype(np.float32), "bfloat16")
            self.assertEqual(b.tobytes(), want.tobytes())
            self.assertEqual(language.static_cast(b, language.float32).tolist(),
                             np.asarray(want.astype(np.float32)).tolist())
            self.assertEqual(language.static_cast(x, np.int32).tolist(), [[0, 1], [256, -3]])
            whole = language.static_cast(np.array([1, 2], np.uint16), language.bfloat16)
            self.assertEqual(np.asarray(whole.astype(np.float32)).tolist(), [1.0, 2.0])


if __name__ == "__main__":
    unittest.main()
