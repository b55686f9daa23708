"""Messages name what was written, and what is allowed."""
import sys
import unittest

from helper import data
from test_errors import kernel_of

import nki
import nki.isa as nisa
import nki.language as nl
from soma.errors import KernelError

# As WRONG of test_errors.py: operators that registers and tiles have not, and None for an operand.
WRONG = (
    ("nisa.register_alloc(3) << 2", TypeError, "<< of register value reg1: it is known when the "
     "kernel runs, not while it is built; only +, - and * by a whole number are computed of it"),
    ("7 % nisa.register_alloc(3)", TypeError, "% of register value reg1: it is known when"),
    ("~nisa.register_alloc(3)", TypeError, "~ of register value reg1: it is known when"),
    ("nisa.register_alloc(3) * 1.5", TypeError, "* 1.5 of register value reg1: it is known when"),
    ("float(nisa.register_alloc(3))", TypeError, "float() of register value reg1: it is known"),
    ("f'{nisa.register_alloc(3):d}'", TypeError, "a number as text of register value reg1: it"),
    ("x // 2", KernelError, "// of a tile is no operator of the machine: nl.floor(x / y)"),
    ("round(x)", KernelError, "round() of a tile is no operator of the machine: a copy to an int"),
    ("x.item()", AttributeError, "a tensor has no .item: its values are known when the kernel"),
    ("x.T", AttributeError, "a tensor has no .T: nl.transpose(x) is the transpose"),
    ("1 if a[0, 0] else 2", KernelError, "the values of a tile are known when the kernel runs, "),
    ("nisa.tensor_tensor(dst=y, data1=x, data2=None, op=nl.add)", KernelError,
     "tensor_tensor: data2 is None, not a tensor"),
    ("nisa.tensor_tensor(dst=y, data1=None, data2=x, op=nl.add)", KernelError,
     "tensor_tensor: data1 is None, not a tensor"),
    ("nisa.nc_stream_shuffle(dst=y, src=x, shuffle_mask=None)", KernelError,
     "nc_stream_shuffle: shuffle_mask is None, not a list of 32 whole numbers"),
    ("nisa.dma_compute(a, None, nl.add)", KernelError,
     "dma_compute: srcs is None, not a list of tensors"),
    ("nisa.dma_transpose(dst=y, src=x, axes=3.5)", KernelError,
     "dma_transpose: axes 3.5 of 2 dimensions: there are (1, 0), "),
    ("nisa.dma_copy(dst=y, src=a, engine='a')", KernelError,
     "dma_copy: engine='a' is for dge_mode.hwdge"),
    ("nl.shared_constant(1 << 70, dtype=nl.int32)", KernelError,
     "nl.shared_constant: a number of 1180591620717411303424 does not fit in int32"),
    ("nisa.reciprocal(dst=y, data=None)", KernelError, "reciprocal: data is None, not a tensor"),
    ("nisa.tensor_copy(dst=y, src=None)", KernelError, "tensor_copy: src is None, not a tensor"),
    ("nisa.nc_matmul(dst=p, stationary=x, moving=None)", KernelError,
     "nc_matmul: moving is None, not a tensor"),
    ("nisa.nc_transpose(dst=p, data=None)", KernelError, "nc_transpose: data is None, not a ten"),
    ("nisa.dma_transpose(dst=y, src=None)", KernelError, "dma_transpose: src is None, not a ten"),
    ("nisa.max8(dst=y, src=None)", KernelError, "max8: src is None, not a tensor"),
    ("nisa.bn_stats(dst=y[:, 0:6], data=None)", KernelError, "bn_stats: data is None, not a ten"),
    ("nisa.bn_stats(dst=y[:, 0:5], data=x)", KernelError, "bn_stats dst: 5 elements per partition"),
    ("nisa.nc_find_index8(dst=y[:, 0:8], data=x, vals=None)", KernelError,
     "nc_find_index8: vals is None, not a tensor"),
    ("nisa.nc_n_gather(dst=y, data=x, indices=None)", KernelError,
     "nc_n_gather: indices is None, not a tensor"),
    ("nisa.nc_n_gather(dst=y, data=x, indices=x)", KernelError,
     "nc_n_gather indices: float32: nc_n_gather takes uint32 here"),
    ("nisa.iota(dst=y, pattern=None)", KernelError,
     "iota: pattern None: up to four pairs of whole numbers [step, count]"),
    ("x.ap(None)", KernelError, "ap: pattern=None: it must be pairs [step, count]"),
    ("x.reshape(None)", KernelError, "reshape: None is not a whole number"),
    ("x.reshape((128, 511.5))", KernelError, "reshape: 511.5 is not a whole number"),
    ("nl.store(a, None)", KernelError, "nl.store: value is None, not a tile or a number"),
    ("nl.add(x, None)", KernelError, "nl.add: y is None, not a tile or a number"),
    ("nisa.activation(dst=y, op=nl.exp, data=x, scale='2')", KernelError,
     "scale is '2': a number, a register or a tile of one element in each partition is needed"),
    ("nisa.activation(dst=y, op=nl.exp, data=x, scale=10**400)", KernelError,
     "scale is %s ...: a number, a register or a tile of one element in each partition is needed"
     % ("1" + 56 * "0")),
    ("nisa.activation(op=nl.exp, data=x, reduce_res=nisa.register_alloc(3))", KernelError,
     "activation: reduce_res is Register, not a tensor"),
    ("nisa.range_select(on_true_tile=x, comp_op0=nl.less, comp_op1=nl.less, bound0=3.0, bound1=x)",
     KernelError, "range_select: bound0 is float, not a tensor"),
)


class Messages(unittest.TestCase):
    def test_each_at_its_line_with_what_was_written(self):
        for statement, kind, text in WRONG:
            with self.subTest(statement):
                with self.assertRaises(kind) as caught:
                    kernel_of(statement)(data(128, 512))
                want = "case.py:4: " + text
                self.assertEqual(str(caught.exception)[:len(want)], want)

    def test_checks_that_name_none_and_options_of_runs(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out
        x = data(8, 8)
        for checks in None, "", []:
            with self.assertRaisesRegex(ValueError, "no check is named; there are all, uninit"):
                kernel.check(x, checks=checks)
        with self.assertRaisesRegex(TypeError, 'schedule=1.5: expected a whole number, or "all"'):
            kernel.run(x, schedule=1.5)
        self.assertEqual(kernel.run(x, schedule="all", twins=False).schedules.verdict, "same")

    @unittest.skipIf(sys.version_info < (3, 11), "Python tells no columns")
    def test_tiles_made_on_one_line_have_their_own_variables(self):
        def out(x):
            return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

        @nki.jit
        def kernel(x):
            s = "; no = 1"; o = out(x); a = nl.load(x); b = nl.load(x)  # noqa: E702
            for _ in range(2): c = nl.ndarray((8, 8), x.dtype); d = nl.copy(a)  # noqa: E701, E702
            nisa.tensor_copy(dst=c, src=b); nl.store(o, nl.add(c, d)); return o or s  # noqa: E702
        text = kernel.source(data(8, 8))
        for tile in "a", "b", "c", "d_2":
            self.assertIn(",%s]" % tile, text)
        self.assertIn("o tensor", text.replace(" " * 6, ""))


if __name__ == "__main__":
    unittest.main()
