"""Tiles of different shapes in one call: NumPy's result, or that by partitions, or refused; never
one that is neither. Values in memory of another shape. Operands in PSUM."""
import itertools
import unittest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from helper import KernelCase, data, of_tiles

import nki
from soma.errors import KernelError

SHAPES = [(4, 6), (4, 1), (1, 6), (1, 1), (4, 2, 3), (4, 1, 3), (4, 2, 1), (4, 1, 6), (4, 6, 1),
          (1, 4, 6), (1, 2, 3), (4, 4, 6), (4, 4, 1), (6, 4), (4, 1, 1), (4, 4), (4, 2, 3, 1),
          (4, 3, 2)]


def added(call):
    @nki.jit
    def kernel(a, b):
        r = call(nl.load(a), nl.load(b))
        out = nl.ndarray(r.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, r)
        return out
    return kernel


def by_partitions(a, b):
    n = max(a.ndim, b.ndim)
    a, b = (t.reshape(t.shape[:1] + (1,) * (n - t.ndim) + t.shape[1:]) for t in (a, b))
    return a + b


def readings(a, b):
    """What a + b can mean, by name."""
    found = {}
    for name, add in (("numpy", np.add), ("partitions", by_partitions)):
        try:
            found[name] = add(a, b)
        except ValueError:
            pass
    if a.shape[0] == b.shape[0] and a.size == b.size:
        found["order"] = (a.ravel() + b.ravel()).reshape(a.shape)
    return found


class Shapes(KernelCase):
    def test_no_pair_of_shapes_is_silently_something_else(self):
        ran = 0
        for call in (lambda x, y: nl.add(x, y), lambda x, y: x + y,
                     lambda x, y: nisa.tensor_tensor(x, y, op=nl.add)):
            kernel = added(call)
            for s, t in itertools.product(SHAPES, SHAPES):
                a, b = data(*s), data(*t)
                try:
                    got = kernel(a, b)
                except KernelError:
                    continue
                ran += 1
                known = readings(a, b)
                self.assertTrue(any(got.shape == v.shape and np.array_equal(got, v)
                                    for v in known.values()), (s, t, got.shape, list(known)))
        self.assertGreater(ran, 300)

    def test_by_partitions_where_numpy_has_nothing(self):
        a, column, flat = data(128, 2, 14), data(128, 1), data(128, 28)
        for call in (lambda x, y: nl.add(x, y), lambda x, y: x + y, lambda x, y: y + x,
                     lambda x, y: nisa.tensor_tensor(x, y, op=nl.add)):
            self.same(added(call)(a, column), a + column[:, :, None])
            self.same(added(call)(a, flat).reshape(128, 28), a.reshape(128, 28) + flat)
        self.same(added(lambda x, y: nl.where(nl.greater(y, 0.0), x, y))(a, column),
                  np.where(column[:, :, None] > 0, a, column[:, :, None]))
        self.same(added(lambda x, y: nl.divide(x, y))(a, 1 + abs(column)),
                  a / (1 + abs(column))[:, :, None], 1e-5)

        def masked(x, y):
            i, j, k = nl.mgrid[0:128, 0:2, 0:14]
            return nl.add(x, y, mask=(k < 5) & (i < 64))
        keep = (np.arange(14) < 5) & (np.arange(128) < 64)[:, None, None]
        self.same(added(masked)(a, column), np.where(keep, a + column[:, :, None], 0))

    def test_what_fits_in_more_than_one_way_is_refused(self):
        with self.assertRaisesRegex(KernelError, "more than one way"):
            added(lambda x, y: nisa.tensor_tensor(x, y, op=nl.add))(data(8, 1, 6), data(8, 6, 1))
        for s, t in ((128, 128, 14), (128, 1)), ((16, 16, 16), (16, 16)), ((128, 1, 111), (128, 1)):
            with self.subTest((s, t)), self.assertRaisesRegex(KernelError, "more than one way"):
                added(lambda x, y: x + y)(data(*s), data(*t))
        with self.assertRaisesRegex(KernelError, "do not broadcast"):
            added(lambda x, y: x + y)(data(128, 2, 14), data(128, 3))

    def test_an_instruction_leaves_partitions_where_they_are(self):
        """As in a student's pooled convolution: NumPy's result is none of one instruction."""
        for s, t in ((128, 1, 111), (128, 1)), ((128, 128, 14), (128, 1)), ((16, 16, 16), (16, 16)):
            a, b = data(*s), data(*t)
            for x, y in ((a, b), (b, a)):
                got = added(lambda x, y: nisa.tensor_tensor(x, y, op=nl.add))(x, y)
                self.same(got, by_partitions(x, y))

    def test_a_value_in_another_order_is_refused(self):
        a = data(32, 64)
        for statement in (lambda out, x: nl.store(out, x), assigned):
            @nki.jit
            def kernel(x):
                out = nl.ndarray((64, 32), nl.float32, buffer=nl.shared_hbm)
                statement(out, nl.load(x))
                return out
            with self.assertRaisesRegex(KernelError, r"shape \[32, 64\].* in another order"):
                kernel(a)

        @nki.jit
        def kernel(x):
            out = nl.ndarray((32, 8, 8), nl.float32, buffer=nl.shared_hbm)
            flat = nl.ndarray((32 * 64,), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            nl.store(flat, nl.load(x))
            return out, flat
        out, flat = kernel(a)
        self.same(out, a.reshape(32, 8, 8))
        self.same(flat, a.ravel())


def assigned(out, x):
    y = nl.ndarray((64, 32), nl.float32, buffer=nl.sbuf)
    y[...] = x
    nl.store(out, y)


LIMITS = (-3.4028235e38, -3.402823466e+38, -3.40282347e38, float(np.finfo(np.float32).min),
          np.finfo(np.float32).min)


class Psum(KernelCase):
    """Operands of the old style in PSUM give what those in SBUF give."""

    CALLS = {
        "nc_matmul": lambda a, b: nisa.nc_matmul(a, b),
        "affine_select": lambda a, b: nisa.affine_select(
            nl.mgrid[0:32, 0:64][0] >= nl.mgrid[0:32, 0:64][1], a, -9.0),
        "affine_select of two": lambda a, b: nisa.affine_select(
            pred=(nl.mgrid[0:32, 0:64][0] >= 4) & (nl.mgrid[0:32, 0:64][1] < 9), on_true_tile=a,
            on_false_value=1.0),
        "range_select": lambda a, b: nisa.range_select(
            on_true_tile=a, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=b[:, 0:1],
            bound1=a[:, 0:1]),
        "tensor_tensor": lambda a, b: nisa.tensor_tensor(a, b, op=nl.subtract),
        "power": lambda a, b: nisa.tensor_tensor(a, b, op=nl.power),
        "scalar_tensor_tensor": lambda a, b: nisa.scalar_tensor_tensor(
            data=a, op0=nl.add, operand0=b[:, 0:1], op1=nl.multiply, operand1=b),
        "tensor_tensor_scan": lambda a, b: nisa.tensor_tensor_scan(a, b, 0.5, nl.multiply, nl.add),
        "tensor_partition_reduce": lambda a, b: nisa.tensor_partition_reduce(nl.add, a),
        "nc_n_gather": lambda a, b: nisa.nc_n_gather(a, nl.copy(b, dtype=nl.uint32)),
        "nc_transpose": lambda a, b: nisa.nc_transpose(a),
        "max8": lambda a, b: nisa.max8(a),
        "nl.add": lambda a, b: nl.add(a, b),
        "nl.rsqrt": lambda a, b: nl.rsqrt(b),
        "nl.softmax": lambda a, b: nl.softmax(a, axis=1),
    }

    def test_operands_in_psum(self):
        x, y = (np.random.default_rng(1).integers(1, 9, (2, 32, 64))).astype(np.float32)
        for name, call in self.CALLS.items():
            def of(first, second):
                def kernel(a, b):
                    tiles = [a, b]
                    for i, there in enumerate((first, second)):
                        if there:
                            t = nl.ndarray((32, 64), nl.float32, buffer=nl.psum)
                            t[...] = nl.copy(tiles[i])
                            tiles[i] = t
                    return nl.copy(call(*tiles))
                return added(kernel)
            want = of(False, False)(x, y)
            for where in ((True, False), (False, True), (True, True)):
                with self.subTest(name, psum=where):
                    self.same(of(*where)(x, y), want, 0, 0)

    def test_the_least_float32_in_any_spelling(self):
        x = data(128, 64)
        for least in LIMITS:
            def kernel(a):
                lo, hi = (nisa.memset((128, 1), v, nl.float32) for v in (3.0, 10.0))
                return nisa.range_select(on_true_tile=a, comp_op0=nl.greater_equal,
                                         comp_op1=nl.less, bound0=lo, bound1=hi,
                                         on_false_value=least)
            j = np.arange(64)
            self.same(of_tiles(kernel)(x), np.where((j >= 3) & (j < 10), x,
                                                    np.finfo(np.float32).min))
        for other in (-3.4e38, float("-inf"), 0.0):
            least = other
            with self.assertRaisesRegex(KernelError, "the machine fills with the least float32"):
                of_tiles(kernel)(x)


if __name__ == "__main__":
    unittest.main()
