"""Arithmetic of tensors on a device: operators, NumPy's functions, sums and products run there."""
import contextlib
import io
import pathlib
import unittest

import numpy as np

import soma
from soma import layout, operators
from soma.layout import Lies

rng = np.random.default_rng(7)


def floats(*shape):
    return rng.uniform(0.5, 2, shape).astype(np.float32)


class Arithmetic(unittest.TestCase):
    def setUp(self):
        self.device = soma.device("neuron:3")

    def tearDown(self):
        self.device.close()

    def same(self, got, want, rtol=2e-6):
        self.assertIsInstance(got, soma.DeviceArray)
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64),
                                   rtol=rtol, atol=1e-6)

    def test_two_tensors_broadcast(self):
        for shapes in (((3, 70), (3, 70)), ((300, 5), (5,)), ((4, 1, 6), (3, 1)), ((), (2, 3)),
                       ((2, 3, 5, 7), (3, 1, 7)), ((1,), (1,)), ((130, 2100), (130, 1))):
            x, y = (floats(*s) for s in shapes)
            a, b = self.device.array(x), self.device.array(y)
            for f in (np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.less,
                      np.greater_equal, np.equal):
                with self.subTest(shapes=shapes, f=f.__name__):
                    got = f(a, b)
                    self.assertEqual(got.dtype, f(x, y).dtype)
                    self.same(got, f(x, y), 0)
            self.same(a / b, x / y)
            self.same(a ** b, x ** y, 1e-5)

    def test_numbers(self):
        x = floats(40, 9)
        a = self.device.array(x)
        for got, want in ((a + 1, x + 1), (1 - a, 1 - x), (a * 0.5, x * 0.5), (a ** 2, x ** 2),
                          (2 / a, 2 / x), (-a, -x), (abs(-a), x), (a > 1, x > 1),
                          (np.maximum(a, 1), np.maximum(x, 1))):
            self.same(got, want)

    def test_functions(self):
        x = floats(33, 12)
        a = self.device.array(x)
        for f in (np.exp, np.log, np.tanh, np.sqrt, np.reciprocal, np.square, np.sign, np.sin):
            self.same(f(a), f(x), 2e-5)
        self.same(a.sigmoid(), 1 / (1 + np.exp(-x)), 2e-5)
        self.same((a - 1).relu(), np.maximum(x - 1, 0))
        self.same(operators.where(a > 1, a, 0.0), np.where(x > 1, x, 0))
        with self.assertRaisesRegex(soma.SomaError, "log2 is not built for tensors on a device"):
            np.log2(a)

    def test_sums(self):
        x = floats(6, 130, 10)
        a = self.device.array(x)
        for axis in (None, 0, 1, -1, (0, 2)):
            for name in ("sum", "mean", "max", "min"):
                for keep in (False, True):
                    self.same(getattr(a, name)(axis, keep),
                              getattr(np, name)(x, axis=axis, keepdims=keep), 1e-5)
        long = floats(2, 9000)
        self.same(self.device.array(long).sum(1), long.sum(1), 1e-5)
        with self.assertRaisesRegex(ValueError, "axis 3 of a tensor with 3"):
            a.sum(3)
        with self.assertRaisesRegex(TypeError, "sum on a device takes floats, not int32"):
            self.device.zeros(3, "int32").sum()

    def test_products(self):
        for m, k, n in ((1, 1, 1), (130, 300, 700), (128, 128, 512), (257, 3, 5)):
            x, y = floats(m, k), floats(k, n)
            self.same(self.device.array(x) @ self.device.array(y), x @ y, 1e-5)
        x = floats(2, 3, 4)
        self.same(self.device.array(x) @ self.device.array(y[:1].repeat(4, 0)),
                  x @ y[:1].repeat(4, 0), 1e-5)
        half = self.device.array(floats(4, 4), "bfloat16")
        self.assertEqual((half @ half).dtype, half.dtype)
        with self.assertRaisesRegex(TypeError, "matmul of bfloat16 and float32"):
            half @ self.device.ones((4, 4))
        with self.assertRaisesRegex(ValueError, r"\[..., K\] and \[K, N\] are needed"):
            half @ self.device.zeros((3, 4), "bfloat16")

    def test_a_matrix_may_lie_by_columns(self):
        x, y = floats(40, 200), floats(150, 200)
        out = self.device.zeros((40, 150))
        soma.arithmetic.matmul(Lies(self.device.array(x)),
                               Lies(self.device.array(y), (200, 150), (1, 200)), Lies(out))
        self.same(out, x @ y.T, 1e-5)

    def test_types(self):
        i = self.device.array(np.arange(5, dtype=np.int32))
        for got, want, name in ((i + 1, np.arange(5) + 1, "int32"), (i / 2, np.arange(5) / 2,
                                "float32"), (i * 0.5, np.arange(5) / 2, "float32"),
                                (i & 3, np.arange(5) & 3, "int32"),
                                (i + self.device.ones(5), np.arange(5) + 1, "float32")):
            self.same(got, want)
            self.assertEqual(got.dtype, name)
        self.same(self.device.array([1.5, 2.5], "bfloat16").astype("float32"), [1.5, 2.5])
        with self.assertRaisesRegex(TypeError, "bitwise_and of float32: it takes integers"):
            self.device.ones(3) & 1

    def test_in_place_and_assign(self):
        x = floats(8, 6)
        a = self.device.array(x)
        row = a[2]
        row *= 10
        x[2] *= 10
        self.same(a, x)
        a[:4].assign(a[4:])
        x[:4] = x[4:]
        self.same(a, x)
        a[1:6].assign(a[0:5])  # the same memory, shifted
        x[1:6] = x[0:5].copy()
        self.same(a, x)
        a[3:5] += 1
        a[7] = 2
        a[6] = x[0]
        x[3:5], x[7], x[6] = x[3:5] + 1, 2, x[0].copy()
        self.same(a, x)
        a.assign(x[0] + 1)  # from the host
        self.same(a, np.tile(x[0] + 1, (8, 1)))
        with self.assertRaisesRegex(ValueError, "does not fit in"):
            a.assign(np.ones((2, 8, 6), np.float32))

    def test_one_operand_on_the_host_brings_the_result_there(self):
        a = self.device.ones((2, 3))
        for got in (a + np.ones(3, np.float32), np.ones(3, np.float32) + a):
            self.assertIs(type(got), np.ndarray)
            np.testing.assert_array_equal(got, np.full((2, 3), 2))
        with self.assertRaisesRegex(soma.SomaError, "a result on a device needs all operands"):
            a += np.ones(3, np.float32)
        other = soma.device("neuron:4")
        with self.assertRaisesRegex(soma.SomaError, "operands on neuron:3 and neuron:4"):
            a + other.ones(3)
        other.close()

    def test_programs_are_kept_and_nothing_is_copied(self):
        x = self.device.ones((5, 777))
        before = self.device.host_to_device, self.device.device_to_host
        for _ in range(3):
            x = x * 1.25 + x
        count = self.device.arithmetic
        self.assertEqual((count["runs"], count["programs"] <= 2), (6, True))
        self.assertGreater(count["time_ns"], 6000)
        self.assertEqual((self.device.host_to_device, self.device.device_to_host), before)
        self.assertEqual(float(x.max()), 2.25 ** 3)
        with self.assertRaisesRegex(ValueError, "a tensor of 3885 elements is not true or false"):
            bool(x)
        self.assertTrue(x[0][:1] > 1)

    def test_every_element_is_in_one_tile(self):
        for sizes in ((1,), (3000,), (129, 3), (2, 300, 5), (2, 3, 2049), (300, 1, 70)):
            dims = layout.joined([Lies(self.device.zeros(sizes))])
            for steps in (dims, [(n, (s[0] * 2,)) for n, s in dims]):
                found = np.concatenate([
                    (at[0] + np.arange(rows[0])[:, None] * rows[1][0] +
                     np.arange(columns[0]) * columns[1][0]).ravel()
                    for rows, columns, at in layout.boxes(steps)])
                self.assertEqual((len(found), len(np.unique(found))), (np.prod(sizes),) * 2)

    def test_the_manuals_example(self):
        text = pathlib.Path("python/README.md").read_text()
        code = text.split("<!-- example: arithmetic -->")[1].split("```python\n")[1].split("```")[0]
        values = {}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, values)
        values["dev"].close()
        self.assertEqual(out.getvalue().split()[2], "4")  # bytes: the number that was printed

    def test_large_tensors_go_in_parts(self):
        dims = [(20000, (3, 0)), (3, (1, 1))]
        parts = layout.parts(dims)
        self.assertTrue(all(len(layout.boxes(part)) <= layout.TILES for part, _ in parts))
        self.assertEqual(sum(part[0][0] * len(ats) for part, ats in parts), 20000)
        at = [a for part, ats in parts for a in ats]
        self.assertEqual(len({a[0] for a in at}), len(at))
        x = floats(20000, 3)
        self.same(self.device.array(x) + self.device.array(x[0]), x + x[0])


if __name__ == "__main__":
    unittest.main()
