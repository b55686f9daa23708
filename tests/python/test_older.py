"""Names of the older reference: parameters, modules, annotations."""
import contextlib
import io
import unittest
import warnings

import neuronxcc.nki as old
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
from helper import KernelCase, data

import nki
import soma


class OlderNames(KernelCase):
    def test_parameters_of_the_older_reference(self):
        @old.jit
        def kernel(a):
            x = nl.load(src=a)
            nl.random_seed(seed=1, mask=None)
            nl.device_print(prefix="x ", x=x[0:1, 0:1])
            y = nl.copy(src=x)
            z = nl.zeros_like(a=x)
            e = nl.empty_like(a=x)
            e[...] = nl.broadcast_to(src=x[:, 0:1], shape=(64, 40))
            y = nl.add(nl.add(y, z), nl.add(e, nl.static_cast(value=x, dtype=nl.float32)))
            y = nl.add(y, nl.softmax(x=x, axis=1, compute_dtype=nl.float32))
            assert nl.expand_dims(data=x, axis=2).shape == (64, 40, 1)
            out = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm, lazy_initialization=True)
            nl.store(dst=out, value=y)
            return out
        x = data(64, 40)
        e = np.exp(x - x.max(1, keepdims=True))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            got = kernel(x)
        self.same(got, 2 * x + x[:, :1] + e / e.sum(1, keepdims=True))
        self.assertTrue(said.getvalue().startswith("x "))

        @old.jit
        def twice(a):
            return nl.copy(nl.load(a), x=nl.load(a), src=nl.load(a))
        with self.assertRaisesRegex(TypeError, "copy\\(\\) got both x and src, its older name"):
            twice(x)

    def test_modules_annotations_and_a_grid_of_nothing(self):
        import neuronxcc.nki.language.constants as constants
        from neuronxcc.nki import nccl
        from neuronxcc.nki.nccl import all_reduce
        self.assertEqual(constants.sizeinbytes(nl.bfloat16), 2)
        self.assertEqual(constants.sizeinbytes(np.float32), 4)

        self.assertIs(nccl.all_reduce, all_reduce)
        x = np.ones((1, 8), np.float32)

        @old.jit(experimental_flags="enable-mutable-parameter")
        def kernel(buffer: nt.tensor[nt.mutable], x: nt.tensor):
            self.assertEqual(nl.program_ndim(), 0)
            nisa.dma_copy(src=x, dst=buffer[0:1])
            return buffer
        b = np.zeros((4, 8), np.float32)
        np.testing.assert_array_equal(kernel[0](b, x)[:2, 0], [1, 0])
        np.testing.assert_array_equal(b[:2, 0], [1, 0])

    def test_what_the_vendor_refuses_is_told(self):
        def told(jit, body):
            @jit
            def kernel(a):
                x = nl.load(a).assert_shape((64, 64))
                y = nl.ndarray((64, 64), nl.float32, buffer=nl.sbuf)
                p = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
                nl.store(a, body(x, y, p))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                kernel(np.ones((64, 64), np.float32))
            return [str(w.message) for w in caught if w.filename == __file__]

        def stored(x, y, p):
            nl.store(y, x)
            return nl.load(y)

        def turned(x, y, p):
            nisa.nc_transpose(p, x, engine=nisa.tensor_engine)
            nisa.dma_copy(dst=y, src=x)
            return p
        for jit in old.jit, nki.jit:
            self.assertEqual(told(jit, stored), [
                "nl.store: dst is in sbuf: the vendor's compiler takes a tensor in HBM there; "
                "x[...] = value writes a tile",
                "nl.load: src is in sbuf: the vendor's compiler takes a tensor in HBM there; "
                "nl.copy copies a tile"])
            self.assertEqual(told(jit, lambda x, y, p: nisa.nc_transpose(x)), [])
        self.assertEqual(told(old.jit, turned), [
            "nc_transpose of neuronxcc.nki has no dst, it returns a tile: the vendor's compiler "
            "refuses this call; nki has dst"])
        self.assertEqual(told(nki.jit, turned), [])

    def test_keywords_of_jit(self):
        for known in ("mode", "kernel_return", "experimental_flags", "additional_compile_opt"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                nki.jit(lambda a: a, **{known: "x"})
        with self.assertWarnsRegex(UserWarning, "nki.jit has no keyword platform_targets; did you "
                                   "mean platform_target: it has no effect") as caught:
            @nki.jit(platform_targets="trn2")
            def kernel(a):
                return a
        self.assertEqual(caught.filename, __file__)


if __name__ == "__main__":
    unittest.main()
