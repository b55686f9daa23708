"""Registers: their types in arithmetic on tiles, sums of them in addresses."""
import unittest

import numpy as np
from test_loops import SHAPE, Loops, inc, result

import nki.isa as nisa
import nki.language as nl
from soma.errors import KernelError
from soma.errors import KernelError


def loaded(value, dtype):
    tile = nl.ndarray((1, 1), dtype)
    nisa.memset(dst=tile, value=value)
    return nisa.register_alloc(tile)


class Registers(Loops):
    def test_a_whole_number_is_converted_in_arithmetic(self):
        def counting(s, x):
            for i in nl.dynamic_range(1, 5):
                s[...] = nl.add(s, i)

        def times(s, x):
            inc(s)
            for i in nl.dynamic_range(1, 4):
                s[...] = s * i

        def shifted(s, x):
            nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=5)
            nisa.tensor_scalar(dst=s, data=s, op0=nl.left_shift, operand0=nisa.register_alloc(2))
        alloc = nisa.register_alloc
        self.gives(counting, 10)
        self.gives(counting, 10, nl.int32)
        self.gives(times, 6)
        self.gives(shifted, 20, nl.int32)
        for value, want in ((lambda: alloc(3), 3), (lambda: alloc(-7), -7),
                            (lambda: alloc(3) * 2 + 1, 7), (lambda: loaded(2.5, nl.float32), 2.5),
                            (lambda: loaded(2.5, nl.bfloat16), 2.5),
                            (lambda: loaded(-5, nl.int16), -5),
                            (lambda: loaded(200, nl.uint8), 200),
                            (lambda: loaded(3000000000, nl.uint32), 3e9)):
            self.gives(lambda s, x: s + value(), want)
            self.gives(lambda s, x: value() - s, want)
        self.gives(lambda s, x: nl.copy(alloc(0) < s + 1, dtype=nl.float32), 1)
        self.gives(lambda s, x: nisa.activation(op=nl.copy, data=s + 1, scale=alloc(3)), 3)
        self.gives(lambda s, x: nisa.activation(op=nl.relu, data=s + 1, bias=alloc(3)), 4)

    def test_stores_convert(self):
        for dtype, value, want in ((nl.float32, lambda: nisa.register_alloc(3), 3),
                                   (nl.bfloat16, lambda: nisa.register_alloc(-3), -3),
                                   (nl.float32, lambda: 3, 3),
                                   (nl.int32, lambda: loaded(2.0, nl.float32), 2),
                                   (nl.float32, lambda: loaded(2.5, nl.float32), 2.5)):
            def body(s, x):
                one = nl.ndarray((1, 1), dtype)
                nisa.register_store(one, value())
                return nl.add(s, nl.broadcast_to(nl.copy(one, dtype=nl.float32), (8, 1)))
            self.gives(body, want)

    def test_a_float_is_no_whole_number(self):
        def bound(s, x):
            for _ in nl.dynamic_range(loaded(2.0, nl.float32)):
                inc(s)
        self.refused(bound, "holds a float32")
        self.refused(lambda s, x: s + (loaded(2.0, nl.float32) + 1), "holds a float32")
        self.refused(lambda s, x: nl.load(x[loaded(0.0, nl.float32)]), "holds a float32")

    def test_what_was_computed_before_a_write_is_refused(self):
        def body(s, x):
            r = nisa.register_alloc(1)
            more = r + 1
            for _ in nl.dynamic_range(3):
                nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=more)
                nisa.register_move(r, 5)
        self.refused(body, "was written after .* was computed from it")

    def test_python_cannot_ask_for_its_value(self):
        p, numbers = nl.arange(8)[:, None], np.array([1, 2])
        for ask in (lambda i: i == 2, lambda i: i * 2 == 4, lambda i: 4 != i * 2,
                    lambda i: i + 1 == i * 2, lambda i: i == 2.0, lambda i: i == np.int64(2),
                    lambda i: np.float32(2) == i, lambda i: i in numbers, lambda i: i + 1 in (1, 2),
                    lambda i: (i + 1, 0) == (2, 0), lambda i: [1, 2].count(i * 1),
                    lambda i: i < np.int64(2), lambda i: i % np.int64(2), lambda i: i in {1, 2},
                    lambda i: {0: 1, 1: 2}.get(i), lambda i: {1: 2}.get(i * 2, 5),
                    lambda i: p < i * 2, lambda i: p == i):
            def body(s, x, ask=ask):
                for i in nl.dynamic_range(4):
                    if ask(i):
                        inc(s)
            self.refused(body, "of register value .* is known when the kernel runs", TypeError)

    def test_sums_of_registers_in_an_address(self):
        x = np.arange(4 * 6 * 8 * 4, dtype=np.float32).reshape(4, 6, 8, 4) + 1

        def over(view):
            def body(s, x):
                for i in nl.dynamic_range(4):
                    for j in nl.dynamic_range(6):
                        nisa.tensor_tensor(dst=s, data1=s, data2=nl.load(view(x, i, j)), op=nl.add)
            self.gives(body, x.sum((0, 1)), x=x)
        over(lambda a, i, j: a[i, j])
        over(lambda a, i, j: a[i][j])
        over(lambda a, i, j: a.reshape((24, 8, 4))[i * 6 + j])
        over(lambda a, i, j: a.reshape((24, 8, 4))[j + i * 6])
        over(lambda a, i, j: a.reshape((24, 8, 4))[23 - i * 6 - j])
        over(lambda a, i, j: a.reshape((192, 4))[nl.ds(i * 48 + j * 8, 8)])
        over(lambda a, i, j: a.select(0, i).select(0, j))
        over(lambda a, i, j: a.select(0, i).ap([[4, 8], [1, 4]], scalar_offset=j, indirect_dim=0))

    def test_elements_of_tiles_in_an_address(self):
        x = np.arange(4 * 6 * 8 * 4, dtype=np.float32).reshape(4, 6, 8, 4) + 1

        def body(s, x):
            k = nl.full((1, 1), 3, nl.int32)
            for i in nl.dynamic_range(4):
                nisa.tensor_tensor(dst=s, data1=s, data2=nl.load(x.select(0, i).select(0, k)),
                                   op=nl.add)
                nisa.tensor_tensor(dst=s, data1=s, data2=nl.load(x.select(1, k).select(0, i)),
                                   op=nl.add)
        self.gives(body, 2 * x[:, 3].sum(0), x=x)

        def two(s, x):
            j, k = nl.full((1, 1), 2, nl.int32), nl.full((1, 1), 3, nl.int32)
            return nl.load(x.select(0, j).select(0, k))
        self.gives(two, x[2, 3], x=x)

        def of_float(s, x):
            k = nl.full((1, 1), 2.0, nl.float32)
            return nl.load(x.select(0, nisa.register_alloc(1)).select(0, k))
        with self.assertRaisesRegex(KernelError, "holds a float32"):
            result(of_float, x=x)

    def test_a_place_stays_in_its_dimension_in_all_rounds(self):
        x = np.arange(8 * 6 * 40, dtype=np.float32).reshape(8, 6, 40)
        p, f = nl.arange(8)[:, None], nl.arange(4)[None, :]
        right = ((lambda a, i: a[:, 0, nl.ds(i * 9 + 9, 4)], lambda i: x[:, 0, i * 9 + 9:][:, :4]),
                 (lambda a, i: a[p, 2, i * 9 + f], lambda i: x[:, 2, i * 9:i * 9 + 4]),
                 (lambda a, i: a[:, 5 - i, 0:4], lambda i: x[:, 5 - i, 0:4]))
        wrong = (lambda a, i: a[:, 0, nl.ds(i * 9 + 10, 4)], lambda a, i: a[:, 2 - i, 0:4],
                 lambda a, i: a[:, 1, nl.ds(i * 9 - 1, 4)], lambda a, i: a[:, i + 3, 0:4],
                 lambda a, i: a.select(1, i + 3), lambda a, i: a[p, 2, i * 9 + 10 + f])

        def over(view, on_chip):
            def body(s, x):
                a = nl.load(x) if on_chip else x
                for i in nl.dynamic_range(4):
                    t = (nl.copy if on_chip else nl.load)(view(a, i))
                    nisa.tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)
            return body
        for on_chip in False, True:
            for view, want in right:
                self.gives(over(view, on_chip), sum(map(want, range(4))), x=x)
            for view in wrong:
                with self.assertRaisesRegex(KernelError, r"elements -?\d+ to \d+ of dimension \d, "
                                            r"which has \d+: so far .* goes in its loop"):
                    result(over(view, on_chip), x=x)

    def test_index_objects_at_a_register(self):
        x = np.arange(4 * 64 * 4, dtype=np.float32).reshape(4, 64, 4)
        p, f = nl.arange(8)[:, None], nl.arange(4)[None, :]

        def over(view):
            def body(s, x):
                for i in nl.dynamic_range(4):
                    for j in nl.dynamic_range(8):
                        nisa.tensor_tensor(dst=s, data1=s, data2=nl.load(view(x, i, j)), op=nl.add)
            self.gives(body, x.reshape(32, 8, 4).sum(0), x=x)
        over(lambda a, i, j: a[i, j * 8 + p, f])
        over(lambda a, i, j: a.reshape((256, 4))[i * 64 + j * 8 + p, f])
        over(lambda a, i, j: a.reshape((256, 4))[p + j * 8 + 64 * i, f])
        over(lambda a, i, j: a.reshape((256, 4))[248 - i * 64 + p - j * 8, f])
        self.refused(lambda s, x: s[nisa.register_alloc(0) + p, f], "the partitions of an operand")
        self.refused(lambda s, x: nl.load(x, mask=nisa.register_alloc(0) + p < 4),
                     "the bounds of a mask are known while the kernel is built")

    def test_sums_of_registers_in_a_tile(self):
        x = np.arange(8 * 60, dtype=np.float32).reshape(8, 60)

        def body(s, x):
            t, r = nl.load(x), nisa.register_alloc(2)
            for i in nl.dynamic_range(4):
                for j in nl.dynamic_range(5):
                    nisa.tensor_tensor(dst=s, data1=s, data2=t[:, nl.ds(i * 10 + j * 2 + r, 4)],
                                       op=nl.add)
        want = sum(x[:, i * 10 + j * 2 + 2:][:, :4] for i in range(4) for j in range(5))
        self.gives(body, want, x=x)


if __name__ == "__main__":
    unittest.main()
