"""nki.language: each function of tiles against NumPy."""
import math
import unittest

import numpy as np
from helper import KernelCase, data, of_tiles, rng

import nki
import nki.isa as nisa
import nki.language as nl
import soma

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


UNARY = {
    "exp": np.exp, "tanh": np.tanh, "sigmoid": sigmoid, "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu, "silu": lambda x: x * sigmoid(x), "softplus": lambda x: np.log1p(np.exp(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "erf": erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), "arctan": np.arctan,
    "sign": np.sign, "square": np.square, "abs": np.abs, "negative": np.negative,
    "reciprocal": lambda x: 1 / x, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "copy": lambda x: x, "logical_not": lambda x: x == 0,
    "silu_dx": lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
    "gelu_dx": lambda x: 0.5 * (1 + erf(x / math.sqrt(2))) +
    x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) *
                                                        (x + 0.044715 * x ** 3))),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: sigmoid(1.702 * x) * (
        1 + 1.702 * x * (1 - sigmoid(1.702 * x))),
}
POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
          "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal,
          "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
          "greater": np.greater, "greater_equal": np.greater_equal,
          "logical_and": np.logical_and, "logical_or": np.logical_or,
          "logical_xor": np.logical_xor}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
        "left_shift": np.left_shift, "right_shift": np.right_shift}


class Elementwise(KernelCase):
    def test_functions_of_one_tile(self):
        x = data(128, 40)
        x[:, 0] = [0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0] * 16
        for name, reference in UNARY.items():
            with self.subTest(name):
                y = x if name != "reciprocal" else x + np.sign(x) + (x == 0)
                got = of_tiles(getattr(nl, name))(y)
                self.same(got, reference(y.astype(np.float64)), 1e-5, 2e-6)

    def test_functions_of_positive_numbers(self):
        x = data(100, 33, low=0.1, high=50)
        for name, reference in POSITIVE.items():
            with self.subTest(name):
                self.same(of_tiles(getattr(nl, name))(x), reference(x.astype(np.float64)))

    def test_large_numbers_are_whole_already(self):
        x = np.float32([[1e9, -3e9, 2.0 ** 23 + 1, 8388607.5, -0.25, 1e30]])
        for name in ("floor", "ceil", "trunc"):
            self.same(of_tiles(getattr(nl, name))(x), getattr(np, name)(x))

    def test_sines_of_any_argument(self):
        x = data(128, 50, low=-100, high=100)
        for name in ("sin", "cos"):
            self.same(of_tiles(getattr(nl, name))(x), getattr(np, name)(x.astype(np.float64)), 0,
                      2e-5)
        x = data(128, 50, low=-1.2, high=1.2)
        self.same(of_tiles(nl.tan)(x), np.tan(x), 1e-4, 1e-5)

    def test_two_tiles_of_each_broadcast_shape(self):
        shapes = [((128, 32), (128, 32)), ((128, 32), (128, 1)), ((128, 1), (128, 32)),
                  ((128, 32), (1, 32)), ((1, 32), (128, 32)), ((128, 1), (1, 32)),
                  ((40, 8), (1, 1))]
        for name, reference in BINARY.items():
            for one, other in shapes if name in ("add", "subtract", "divide",
                                                 "less") else shapes[:2]:
                with self.subTest("%s %s %s" % (name, one, other)):
                    a, b = np.round(data(*one) * 2) / 2, np.round(data(*other) * 2) / 2
                    b = b + (name == "divide") * 3
                    want = reference(a, b)
                    got = of_tiles(getattr(nl, name), want.shape)(a, b)
                    self.same(got, want)

    def test_a_tile_and_a_number(self):
        a = data(64, 16)
        for name in ("add", "subtract", "multiply", "maximum", "greater", "divide"):
            f, reference = getattr(nl, name), BINARY[name]
            self.same(of_tiles(lambda t: f(t, 1.5))(a), reference(a, np.float32(1.5)))
            self.same(of_tiles(lambda t: f(1.5, t))(a), reference(np.float32(1.5), a), 1e-4, 1e-4)

    def test_powers(self):
        a, b = data(64, 16, low=0.5), data(64, 16)
        self.same(of_tiles(nl.power)(a, b), np.power(a, b))
        self.same(of_tiles(lambda t: t ** 2)(a), a * a)

    def test_operators_are_the_functions(self):
        a, b = data(64, 16), data(64, 16)
        got = of_tiles(lambda x, y: -(x + y) * 2.0 - x / 4.0 + (1.0 - y))(a, b)
        self.same(got, -(a + b) * 2 - a / 4 + (1 - b))

    def test_bits_of_integers(self):
        a = rng.integers(0, 1 << 20, (32, 10)).astype(np.int32)
        b = rng.integers(0, 11, (32, 10)).astype(np.int32)
        for name, reference in BITS.items():
            with self.subTest(name):
                got = of_tiles(getattr(nl, name), dtype=nl.int32)(a, b)
                np.testing.assert_array_equal(got, reference(a, b))
        got = of_tiles(nl.invert, dtype=nl.int32)(a)
        np.testing.assert_array_equal(got, ~a)

    def test_words_are_added_exactly(self):
        a = rng.integers(1 << 28, 1 << 30, (32, 10)).astype(np.int32)
        got = of_tiles(lambda x, y: x + y, dtype=nl.int32)(a, a)
        np.testing.assert_array_equal(got, a + a)

    def test_where_chooses(self):
        c = (data(64, 16) > 0).astype(np.float32)
        a, b = data(64, 16), data(64, 1)
        self.same(of_tiles(nl.where, (64, 16))(c, a, b), np.where(c > 0, a, b))
        self.same(of_tiles(lambda p, x: nl.where(p, x, -1.0))(c, a), np.where(c > 0, a, -1))

    def test_types_are_asked_for_and_promoted(self):
        a = data(64, 16)
        got = of_tiles(lambda x: nl.add(x, 1.0, dtype=nl.bfloat16), dtype=nl.bfloat16)(a)
        self.same(got, soma.array(a + 1, "bfloat16").astype(np.float32), 0, 0)
        i = np.arange(64, dtype=np.int32).reshape(8, 8)
        self.same(of_tiles(lambda x: x / 2)(i), i / 2)

    def test_along_the_last_axes(self):
        x = data(100, 6, 5, 4)
        for name, reference in {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean,
                                "prod": np.prod}.items():
            for axis in ([3], [2, 3], [1, 2, 3]):
                with self.subTest("%s %s" % (name, axis)):
                    want = reference(x.astype(np.float64), axis=tuple(axis))
                    want = want.reshape(100, -1)
                    f = getattr(nl, name)
                    got = of_tiles(lambda t: f(t, axis=axis), want.shape)(x)
                    self.same(got, want, 1e-4, 1e-5)

    def test_along_other_axes(self):
        x = data(64, 6, 5)
        got = of_tiles(lambda t: nl.sum(t, axis=[1]), (64, 5))(x)
        self.same(got, x.sum(1), 1e-5, 1e-5)

    def test_keepdims(self):
        @nki.jit
        def kernel(x):
            t = nl.sum(nl.load(x), axis=[1], keepdims=True)
            assert t.shape == (64, 1, 5)
            out = nl.ndarray((64, 1, 5), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        x = data(64, 6, 5)
        self.same(kernel(x), x.sum(1, keepdims=True), 1e-5, 1e-5)

    def test_variance_all_and_norms(self):
        x = data(64, 30)
        self.same(of_tiles(lambda t: nl.var(t, axis=1), (64, 1))(x), x.var(1, keepdims=True), 1e-5)
        y = (data(64, 3) > -1.5).astype(np.float32)
        self.same(of_tiles(lambda t: nl.all(t, axis=1), (64, 1))(y), y.all(1, keepdims=True))
        e = np.exp(x - x.max(1, keepdims=True))
        self.same(of_tiles(lambda t: nl.softmax(t, axis=-1))(x), e / e.sum(1, keepdims=True))
        w = data(1, 30)
        want = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w
        self.same(of_tiles(lambda t, g: nl.rms_norm(t, g, 1, 30))(x, w), want, 1e-5, 1e-5)

    def test_the_partitions_are_not_reduced(self):
        with self.assertRaisesRegex(soma.KernelError, "axis 0"):
            of_tiles(lambda t: nl.sum(t, axis=0))(data(8, 8))


class Moving(KernelCase):
    def test_transpose_and_matmul(self):
        x, y = data(96, 40), data(40, 50)
        self.same(of_tiles(nl.transpose, (40, 96))(x), x.T, 0, 0)
        self.same(of_tiles(nl.matmul, (96, 50))(x, y), x @ y, 1e-4, 1e-4)
        got = of_tiles(lambda a, b: nl.matmul(a, b, transpose_x=True), (96, 50))(x.T.copy(), y)
        self.same(got, x @ y, 1e-4, 1e-4)
        self.same(of_tiles(lambda a, b: a @ b, (96, 50))(x, y), x @ y, 1e-4, 1e-4)

    def test_load_transpose2d(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load_transpose2d(x))
            return out
        x = data(70, 50)
        self.same(kernel(x), x.T, 0, 0)

    def test_broadcasts(self):
        x = data(1, 30)
        self.same(of_tiles(lambda t: nl.broadcast_to(t, (100, 30)), (100, 30))(x),
                  np.broadcast_to(x, (100, 30)), 0, 0)
        self.same(of_tiles(lambda t: t.broadcast_to((100, 30)), (100, 30))(x),
                  np.broadcast_to(x, (100, 30)), 0, 0)
        y = data(64, 1)
        self.same(of_tiles(lambda t: nl.broadcast_to(t, shape=(64, 9)), (64, 9))(y),
                  np.broadcast_to(y, (64, 9)), 0, 0)

        @nki.jit
        def rows(g):
            out = nl.ndarray((100, 30), g.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((100, 30), g.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=g.reshape((1, 30)).broadcast_to((100, 30)))
            nisa.dma_copy(dst=out, src=t)
            return out
        self.same(rows(x[0]), np.broadcast_to(x, (100, 30)), 0, 0)

    def test_rows_spread_over_partitions(self):
        """The tensor engine spreads rows of floats, in pieces of a bank; others are shuffled. More
        rows than PSUM has banks can be alive, and a row need not lie in partition 0."""
        for dtype, n, by in (("float32", 512, "matmul"), ("float32", 1100, "matmul"),
                             ("bfloat16", 700, "matmul"), ("float16", 30, "matmul"),
                             ("int32", 30, "shuffle")):
            with self.subTest(dtype, n=n):
                x = np.round(data(40, n) * 10)  # exact in all types

                @nki.jit
                def rows(a):
                    o = nl.ndarray((12, 128, n), dtype=nl.float32, buffer=nl.shared_hbm)
                    t = nl.load(a)
                    wide = [t[r:r + 1, :].broadcast_to((128, n)) for r in [0, 32] * 6]
                    for i in range(12):
                        nl.store(o[i], nl.multiply(wide[i], i + 1, dtype=nl.float32))
                    return o
                got, text = rows(soma.array(x, dtype)), rows.source(soma.array(x, dtype))
                for i in range(12):
                    self.same(got[i], np.broadcast_to(x[i % 2 * 32] * (i + 1), (128, n)), 0, 0)
                self.assertTrue(" %s " % by in text)
                self.assertEqual(text.count(" memset "), by == "matmul")

    def test_gather_flattened(self):
        x = data(32, 64)
        i = rng.integers(0, 64, (32, 10)).astype(np.uint32)
        got = of_tiles(nl.gather_flattened, (32, 10))(x, i)
        self.same(got, np.take_along_axis(x, i.astype(int), 1), 0, 0)

    def test_a_vector_of_hbm_and_a_column(self):
        x = data(100)
        self.same(of_tiles(lambda t: t * 2.0)(x), x * 2)

    def test_rows_by_an_index(self):
        @nki.jit
        def kernel(x, i):
            rows = nl.load(i)
            t = nl.load(x[rows, nl.arange(20)[None, :]])
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, 0.0)
            nl.store(out[rows, nl.arange(20)[None, :]], t * 2.0)
            return out
        x, i = data(90, 20), rng.permutation(90)[:40].astype(np.int32).reshape(40, 1)
        want = np.zeros_like(x)
        want[i[:, 0]] = 2 * x[i[:, 0]]
        self.same(kernel(x, i), want, 0, 0)

    def test_atomic_rmw_adds(self):
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            nl.atomic_rmw(x, t, op=nl.add)
        x = data(64, 8)
        want = 2 * x
        kernel(x)
        self.same(x, want, 0, 0)


class Creating(KernelCase):
    def test_filled_tiles(self):
        @nki.jit
        def kernel():
            out = nl.ndarray((4, 64, 8), nl.float32, buffer=nl.shared_hbm)
            t = nl.full((64, 8), 3.5, nl.float32)
            for i, x in enumerate((t, nl.ones((64, 8), nl.float32), nl.zeros_like(t),
                                   nl.zeros((64, 8), nl.float32, buffer=nl.psum))):
                nl.store(out[i], x)
            assert nl.empty_like(t).shape == t.shape
            return out
        got = kernel()
        self.assertEqual([got[i].min() for i in range(4)], [3.5, 1, 0, 0])
        self.assertEqual([got[i].max() for i in range(4)], [3.5, 1, 0, 0])

    def test_constants(self):
        table = np.arange(64 * 8, dtype=np.float32).reshape(64, 8)

        @nki.jit
        def kernel():
            out = nl.ndarray((64, 8), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.load(nl.shared_constant(table)) +
                     nl.load(nl.shared_constant(np.identity(64, np.int8)[:, :8], dtype=nl.float32)))
            return out
        self.same(kernel(), table + np.identity(64)[:, :8], 0, 0)

        @nki.jit
        def identity():
            out = nl.ndarray((20, 20), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.shared_identity_matrix(20, dtype=nl.float32))
            return out
        self.same(identity(), np.identity(20), 0, 0)

    def test_random_numbers_repeat_after_a_seed(self):
        @nki.jit
        def kernel():
            out = nl.ndarray((2, 128, 64), nl.float32, buffer=nl.shared_hbm)
            for i in range(2):
                nl.random_seed(42)
                nl.store(out[i], nl.rand((128, 64), nl.float32))
            return out
        a, b = kernel()
        self.same(a, b, 0, 0)
        self.assertTrue(0 <= a.min() and a.max() < 1 and 0.45 < a.mean() < 0.55)

    def test_dropout_drops(self):
        x = data(128, 512, low=1)
        got = of_tiles(lambda t: nl.dropout(t, 0.25))(x)
        self.assertTrue(((got == 0) | (got == x)).all())
        self.assertTrue(0.2 < (got == 0).mean() < 0.3)

    def test_sizes(self):
        self.assertEqual((nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax), (128, 512))
        self.assertEqual(nl.tile_size.sbuf_fmax_bytes, 224 * 1024)
        self.assertEqual(nl.fp32.min, np.finfo(np.float32).min)
        self.assertEqual(nl.finfo(nl.float8_e4m3).max, 240)
        self.assertEqual(nisa.get_nc_version(), nisa.nc_version.gen3)

    def test_printing_on_the_device(self):
        seen = []
        from soma import launch
        old, launch._print = launch._print, lambda text, err: seen.append(text)
        launch._machines.clear()
        try:
            @nki.jit
            def kernel(x):
                nl.device_print("value:", nl.load(x))
                for i in nl.dynamic_range(2, 6, 2):
                    nl.device_print("i =", i)
                    nl.device_print("i + 1 =", i + 1)
            kernel(np.float32([[1.5, 2.5]]))
            once = len(seen)
            kernel.check(np.float32([[1.5, 2.5]]), checks="race", schedules=3)
            self.assertEqual(len(seen), 2 * once)
        finally:
            launch._print = old
            launch._machines.clear()
        self.assertIn("value:", "".join(seen))
        self.assertIn("1.5", "".join(seen))
        self.assertEqual([t for t in seen if t[0] == "i"],
                         2 * ["i = 2\n", "i + 1 = 3\n", "i = 4\n", "i + 1 = 5\n"])



class Remainders(KernelCase):
    def test_they_are_numpys(self):
        rng = np.random.default_rng(3)
        x = rng.integers(-20000, 20000, (128, 64)).astype(np.float32)
        y = rng.integers(1, 300, (128, 64)).astype(np.float32) * rng.choice([-1, 1], (128, 64))
        y = y.astype(np.float32)
        for name, call, want in (
                ("mod", nl.mod, np.mod), ("fmod", nl.fmod, np.fmod),
                ("operator", lambda a, b: a % b, np.mod)):
            with self.subTest(name):
                np.testing.assert_array_equal(of_tiles(call)(x, y), want(x, y))
        for n in (41, -41, 3, 0.25, 7.0):
            for call, want in ((nl.mod, np.mod), (nl.fmod, np.fmod)):
                np.testing.assert_array_equal(of_tiles(lambda a: call(a, n))(x),
                                              want(x, np.float32(n)), str(n))
        np.testing.assert_array_equal(of_tiles(lambda a: nl.mod(1000, a))(y), np.mod(1000, y))
        whole = of_tiles(lambda a: nl.mod(a, 7), dtype=nl.int32)(x.astype(np.int32))
        np.testing.assert_array_equal(whole, np.mod(x, 7).astype(np.int32))

    def test_what_is_refused(self):
        with self.assertRaisesRegex(soma.KernelError, "nl.mod of a tile and 0"):
            of_tiles(lambda a: nl.mod(a, 0))(data(8, 8))


if __name__ == "__main__":
    unittest.main()
