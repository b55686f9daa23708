"""Tensors: views, index objects, masks, registers; recorded against NumPy's indexing."""
import os
import unittest

import numpy as np
from helper import KernelCase, data, rng

import nki
import nki.isa as nisa
import nki.language as nl
import soma
from soma.index import Index
from soma.kernel import pack
from soma.masks import effective, mask_ranges


def copied(view, *arrays, rows=128):
    """The values of view(tile of the array): copied into a dense tile, and stored."""
    @nki.jit
    def kernel(x):
        t = view(nl.load(x))
        out = nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm)
        dense = nl.ndarray(t.shape, t.dtype)
        nisa.tensor_copy(dst=dense, src=t)
        nl.store(out, dense)
        return out
    return kernel(*arrays)


def in_hbm(view, x):
    """The values of view(tensor in HBM), copied to another one."""
    @nki.jit
    def kernel(a):
        t = view(a)
        out = nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=t)
        return out
    return kernel(x)


def operand(v):
    """The words of a view without dynamic parts as soma_kernel.h has them, and dimensions merged
    where one goes on where the next ends."""
    chip, dims = bool(v.memory), []
    for n, step in list(zip(v.shape, v.steps))[chip:]:
        if n == 1:
            continue
        if dims and dims[-2] == n * step and dims[-1] * n < 65536:
            dims[-2:] = step, dims[-1] * n
        else:
            dims += step, n
    dims = dims or [1, 1]
    s = v.storage
    return (6 + len(dims), s.handle, v.dtype.code, v.part if chip else 0, v.shape[0] if chip else 0,
            v.off * v.dtype.size, len(dims) // 2, *dims)


def values(index):
    """What an index object stands for, as an array."""
    return index if not isinstance(index, Index) else index.const + sum(
        c * g for c, g in zip(index.coef, np.indices(index.shape, sparse=True)))


def elements(view):
    """(partition, place in the partition or in HBM) of each element of a view."""
    grids = np.indices(view.shape)
    both = [view.part + 0 * grids[0], view.off + 0 * grids[0]]
    for d, (grid, step) in enumerate(zip(grids, view.steps)):
        both[not (view.memory and d == 0)] += grid * step
    return both


def check(case, t, key, *arrays):
    """Compares the elements of t[key] with those that arrays, for the key's index objects and
    numbers, stand for: "inside", "past" the end, "refused"."""
    arrays = arrays or [values(k) + (n if isinstance(k, int) and k < 0 else 0)
                        for k, n in zip(key, t.shape)]
    try:
        arrays = np.broadcast_arrays(*arrays)
    except ValueError:
        with case.assertRaisesRegex(soma.KernelError, "values"):
            t[key]
        return "refused"
    part, off = (x + 0 * arrays[0] for x in (t.part, t.off))
    for d, (a, step) in enumerate(zip(arrays, t.steps)):
        (part if t.memory and d == 0 else off)[...] += a * step
    # An operand's partitions follow one another along axis 0, and are alike.
    first = np.arange(part.shape[0]).reshape((-1,) + (1,) * (part.ndim - 1))
    fits = not t.memory or ((part == part.flat[0] + first).all() and all(
        (a == a[:1]).all() for a in arrays[1:]))
    if not fits:
        with case.assertRaisesRegex(soma.KernelError, "partitions"):
            t[key]
        return "refused"
    v = t[key]
    for got, want in zip(elements(v), (part, off)):
        np.testing.assert_array_equal(got.ravel(), want.ravel(), str(key))
    outside = [n for n, a in zip(t.shape, arrays) if a.min() < 0 or a.max() >= n]
    case.assertEqual([n for n, _ in v.bound or ()], outside)
    if v.bound is None:
        case.assertEqual(v.words(), pack(operand(v)))
    return "past" if outside else "inside"


class Views(KernelCase):
    def test_slices_are_numpys(self):
        x = data(64, 6, 10)
        for key in (np.s_[:], np.s_[0:32], np.s_[:, 2], np.s_[:, 1:5, 3], np.s_[..., ::3],
                    np.s_[:, -2:, -1], np.s_[32:, ...], np.s_[:, 2:100]):
            with self.subTest(str(key)):
                want = x[key]
                self.same(copied(lambda t: t[key], x).reshape(want.shape), want, 0, 0)
                self.same(in_hbm(lambda t: t[key], x), want, 0, 0)

    def test_a_tile_keeps_two_dimensions(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((64, 6, 10), nl.float32)
            assert t[0].shape == (1, 6, 10) and t[:, 0, 3].shape == (64, 1)
            assert t[0, 0, 10 - 1].shape == (1, 1) and x[0].shape == (6, 10)
            assert x[0, 0, 0].shape == (1,) and t[:, 0].shape == (64, 10)
        kernel(data(64, 6, 10))

    def test_what_a_tensor_says_of_itself(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((128, 64), nl.float32, name="tile")
            assert t.strides == (64, 1) and t.offset == 0 and t.size == 128 * 64 and t.ndim == 2
            u = t.slice(dim=1, start=8, end=24)
            assert u.get_pattern() == [[64, 128], [1, 16]] and u.offset == 8
            v = t.ap(pattern=[[64, 128], [1, 16]], offset=8)
            assert v.get_pattern() == u.get_pattern() and v.offset == u.offset
            assert t.is_contiguous() and not t[:, ::2].is_contiguous() and not t.is_indirect()
            assert t.name == "tile" and t.buffer == nl.sbuf and x.buffer == nl.shared_hbm
            assert nl.is_sbuf(t.buffer) and nl.is_hbm(x.buffer) and nl.is_on_chip(t.buffer)
        kernel(data(8, 8))

    def test_each_view_method(self):
        x = data(64, 4, 6)
        cases = [(lambda t: t.reshape((64, 24)), x.reshape(64, 24)),
                 (lambda t: t.reshape((64, 2, -1)), x.reshape(64, 2, 12)),
                 (lambda t: t.permute((0, 2, 1)), x.transpose(0, 2, 1)),
                 (lambda t: t[:, 0:1].broadcast(1, 3), np.repeat(x[:, :1], 3, 1)),
                 (lambda t: t.expand_dim(1), x[:, None]),
                 (lambda t: t.expand_dim(1).squeeze_dim(1), x),
                 (lambda t: t.reshape_dim(2, (3, -1)), x.reshape(64, 4, 3, 2)),
                 (lambda t: t.flatten_dims(1, 2), x.reshape(64, 24)),
                 (lambda t: t.rearrange(("b", ("h", "w"), "c"), ("b", "w", "h", "c"), {"h": 2}),
                  x.reshape(64, 2, 2, 6).transpose(0, 2, 1, 3)),
                 (lambda t: t.select(1, 2), x[:, 2]),
                 (lambda t: t.ap([[24, 32], [6, 4], [2, 3]], offset=1), x[:32, :, 1::2]),
                 (lambda t: t.view(nl.int32), x.view(np.int32)),
                 (lambda t: t.view(nl.uint8), x.view(np.uint8)),
                 (lambda t: t.view(nl.uint8).view(nl.float32), x)]
        for i, (view, want) in enumerate(cases):
            with self.subTest(i):
                self.same(copied(view, x), want, 0, 0)

    def test_what_is_no_view_is_refused(self):
        x = data(64, 4, 6)
        for view, text in ((lambda t: t.reshape((32, 48)), "partitions"),
                           (lambda t: t.permute((1, 0, 2)), "partitions"),
                           (lambda t: t.permute((0, 2, 1)).reshape((64, 24)), "needs a copy"),
                           (lambda t: t.broadcast(1, 8), "not 1"), (lambda t: t[64], "64 elements"),
                           (lambda t: t[:, nl.ds(2, 3)], "4 elements"),
                           (lambda t: t[:, 3:3], "empty"),
                           (lambda t: t[:, 0:4:10 ** 30], "do not fit in 61 bits"),
                           (lambda t: t[:, 0:4:-10 ** 30], "the step must be"),
                           (lambda t: t.ap([[48, 32], [1, 4]]), "24 elements of a row"),
                           (lambda t: t.ap([[24, 64], [1, 25]]), "elements 0 to 24"),
                           (lambda t: t.ap([[24, 64], [1, 2]], offset=-24), "from -1 on"),
                           (lambda t: t.flatten_dims(2, 1), "dimensions 2 to 1 of t are none"),
                           (lambda t: t.reshape((64, -1, -1)), "a size is -1"),
                           (lambda t: t.reshape_dim(2, (4, 2)), r"\[4, 2\] does not make these"),
                           (lambda t: t.squeeze_dim(-4), "dimension -4 of a tensor with 3"),
                           (lambda t: t.view(nl.uint8)[:, :, 1:].ap([[24, 64], [1, 2]],
                                                                    dtype=nl.float32), "byte 1")):
            with self.assertRaisesRegex(soma.KernelError, text):
                copied(view, x)

    def test_one_partition_of_a_tile_stays_a_dimension(self):
        x = data(64, 4, 6)
        self.same(copied(lambda t: t.select(0, 32), x).reshape(1, 4, 6), x[32:33], 0, 0)

    def test_elements_past_the_end_are_not_put_elsewhere(self):
        i, j, k = nl.mgrid[0:32, 0:4, 0:6]
        for view in (lambda t: t[i, j, k + 1].permute((0, 2, 1)),
                     lambda t: t[i, j, k + 1].flatten_dims(1, 2),
                     lambda t: t[i, j, k + 1].expand_dim(3), lambda t: t[i, j, k - 1].select(1, 0),
                     lambda t: t[i, j, k + 1].ap([[24, 32], [1, 4]])):
            for of in copied, in_hbm:
                with self.assertRaisesRegex(soma.KernelError, "limit it by a mask"):
                    of(view, data(64, 4, 6))


class Indices(KernelCase):
    def test_index_objects_are_numpys(self):
        x = data(60, 8, 10)
        p, i, j = nl.mgrid[0:60, 0:4, 0:5]
        a, b, c = np.mgrid[0:60, 0:4, 0:5]
        for made, want in ((lambda t: t[p, i, j], x[a, b, c]),
                           (lambda t: t[p, 2 * i + 1, 9 - 2 * j], x[a, 2 * b + 1, 9 - 2 * c]),
                           (lambda t: t[p, i + j, j], x[a, b + c, c]),
                           (lambda t: t[p, 3, j + i], x[a, 3, c + b])):
            self.same(copied(made, x), want, 0, 0)
            self.same(in_hbm(made, x), want, 0, 0)
        rows, columns = nl.arange(30)[:, None], nl.arange(2, 8)[None, :]
        self.same(in_hbm(lambda t: t[2 * rows, 3, columns], x), x[0:60:2, 3, 2:8], 0, 0)
        self.same(in_hbm(lambda t: t[:, 3, nl.arange(4)], x), x[:, 3, :4], 0, 0)
        self.same(copied(lambda t: t[:, 0][:, nl.arange(5)[None, :]], x), x[:, 0, :5], 0, 0)

    def test_free_elements_do_not_move_with_partitions(self):
        x, (p, i), (a, b) = data(8, 12), nl.mgrid[0:8, 0:4], np.mgrid[0:8, 0:4]
        self.same(in_hbm(lambda t: t[p, p + i], x), x[a, a + b], 0, 0)
        with self.assertRaisesRegex(soma.KernelError, "dimension 1 cannot vary along axis 0"):
            copied(lambda t: t[p, p + i], x)
        with self.assertRaisesRegex(soma.KernelError, "dimension 1 cannot vary along axis 0"):
            copied(lambda t: t[p, :4][p, p], x)

    def test_keys_are_numpys_elements(self):
        """The elements of t[key], and the words of usual views."""
        @nki.jit
        def kernel(x):
            tile = nl.ndarray((96, 80), nl.float32)
            nisa.memset(dst=tile, value=0)
            for t in (x, tile, x[8:80, 4:60], tile[32:80, 4:60], x[3:4, :], x.permute((1, 0)),
                      x.reshape((256, 30))):
                for _ in range(60):
                    n, m = (int(k) for k in rng.choice([1, 2, 7, 30], 2))
                    row, col = (int(k) for k in rng.choice([-1, 0, 0, 1, 20, 59, 79], 2))
                    by, every = (int(k) for k in rng.integers(-1, 3, 2))
                    i, j = nl.arange(n)[:, None], nl.arange(m)[None, :]
                    if rng.random() < 0.3:
                        i, j = nl.mgrid[0:n, 0:m]
                    elif rng.random() < 0.1:
                        i, j = j, i
                    if rng.random() < 0.9:
                        i, j = row + i * by, j * every + col
                    found[check(self, t, (i, j))] += 1
                    row, col = max(row, 0), max(col, 0)
                    if row < t.shape[0] and col < t.shape[1]:
                        key = slice(row, row + n), slice(col, col + m)
                        check(self, t, key, np.arange(row, row + n)[:t.shape[0] - row, None],
                              np.arange(col, col + m)[None, :t.shape[1] - col])
        found = dict.fromkeys(("inside", "past", "refused"), 0)
        kernel(data(96, 80))
        self.assertGreater(min(found.values()), 20, found)

    def test_keys_of_many_dimensions_are_numpys_elements(self):
        """The same of keys of index objects, slices and numbers, and of the bounds of those that
        leave the tensor: COUNT of them."""
        def index(sizes):
            total = 0
            for _ in range(rng.choice([1, 1, 1, 2])):
                axis = int(rng.integers(len(sizes)))
                one = nl.arange(sizes[axis])[tuple(slice(None) if a == axis else None
                                                   for a in range(len(sizes)))]
                total = total + one * int(rng.choice([1, 1, 1, 2, -1]))
            return total + int(rng.integers(-1, 5))

        @nki.jit
        def kernel(x):
            tile = nl.ndarray((16, 4, 3, 5), nl.float32)
            nisa.memset(dst=tile, value=0)
            for _ in range(int(os.environ.get("COUNT", 600))):
                t = (x, x.permute((2, 0, 3, 1)), x[1], tile, tile[4:12, :, 1:3])[rng.integers(5)]
                sizes = [int(n) for n in rng.choice([1, 2, 3, 4], rng.integers(1, 5))]
                key = [index(sizes) if rng.random() < 0.7 else int(rng.integers(-1, n))
                       for n in t.shape]
                for moved in (0, 1, 0):  # of one kind
                    at = tuple(k if isinstance(k, int) else k + moved for k in key)
                    if any(isinstance(k, Index) for k in at):
                        found[check(self, t, at)] += 1
        found = dict.fromkeys(("inside", "past", "refused"), 0)
        kernel(data(4, 6, 5, 7))
        self.assertGreater(min(found.values()), 100, found)

    def test_a_slice_past_the_end_beside_indices_is_refused(self):
        x, i = data(60, 8, 10), nl.arange(4)
        for key in ((i[:, None], nl.ds(5, 6)), (None, nl.ds(50, 20)),
                    (nl.ds(50, 20), i[:, None])):
            with self.assertRaisesRegex(soma.KernelError, "limit it by a mask"):
                in_hbm(lambda t: t[key], x)

        def kernel(a):
            r = nisa.register_alloc(1)
            for k in (nl.ds(r, 9), slice(r, r + 9)):
                with self.assertRaisesRegex(soma.KernelError, "of dimension 1, which has 8 elem"):
                    a[:, k]
        nki.jit(kernel)(x)

    def test_what_is_not_affine_is_refused_with_the_expression(self):
        i = nl.arange(16)
        for make, text in ((lambda: i * i, r"arange\(16\)\) \* arange\(16\) is not affine"),
                           (lambda: (i + 1) // 2, "// 2 is not affine"),
                           (lambda: i % 3, "% 3 is not affine")):
            with self.assertRaisesRegex(soma.KernelError, text):
                make()
        self.assertEqual((4 * i // 2).bounds(), (0, 30))
        with self.assertRaisesRegex(soma.KernelError, "runs from 0 to 99"):
            in_hbm(lambda t: t[nl.arange(100)[:, None], nl.arange(8)[None, :]], data(60, 8))

    def test_indices_and_masks_that_each_round_makes_anew(self):
        def kernel(anew):
            def body(a):
                out = nl.zeros((300, 50), nl.float32, buffer=nl.shared_hbm)
                i, j = nl.arange(128)[:, None], nl.arange(16)[None, :]
                for k in range(3):
                    for m in range(4):
                        if anew:
                            i, j = nl.arange(128)[:, None], nl.arange(16)[None, :]
                        rows, columns = k * 128 + i, m * 16 + j
                        t = nl.load(a[rows, columns], mask=(rows < 300) & (columns < 50))
                        nl.store(out[rows, 2 * j + m % 2], t[i, j],
                                 mask=(300 > rows) & (m * 16 + j <= 49) & (2 * j + m % 2 < 50))
                return out
            return nki.jit(body)
        a = data(300, 50)
        want = np.zeros((300, 50), np.float32)
        for m in range(4):
            part = a[:, m * 16:m * 16 + 16]
            want[:, m % 2:m % 2 + 2 * part.shape[1]:2] = part
        for anew in (False, True):
            self.same(kernel(anew)(a), want, 0, 0)
            self.clean(kernel(anew), a)
        self.assertEqual(*[kernel(anew).report(a) for anew in (False, True)])

    def test_an_index_takes_whole_numbers(self):
        for bad in (lambda: nl.arange(2.5), lambda: nl.arange(), lambda: nl.arange(0, 8, 0),
                    lambda: nl.arange("8")):
            with self.assertRaisesRegex(soma.KernelError, "one to three whole numbers"):
                bad()
        for key, said in ((np.s_[0:8.5, 0:4], "0:8.5:1"), (np.s_[0:8, 0:], "0:None:1"),
                          (5, "5")):
            with self.assertRaisesRegex(soma.KernelError, "slices of whole .*, not %s$" % said):
                nl.mgrid[key]
        self.assertEqual(nl.arange(np.int64(7), 9.0).shape, (2,))

    def test_arithmetic_of_indices_is_numpys(self):
        for _ in range(200):
            i, j = nl.mgrid[0:5, 0:7]
            a, b = np.mgrid[0:5, 0:7]
            for _ in range(4):
                k = int(rng.integers(-3, 4))
                i, a = ((i + k, a + k), (i * k, a * k), (i - j, a - b), (k - i, k - a),
                        (i + k * j, a + k * b))[int(rng.integers(5))]
            values = i.const + sum(c * np.mgrid[0:5, 0:7][n] for n, c in enumerate(i.coef))
            np.testing.assert_array_equal(values, a)


class Masks(KernelCase):
    def test_bounds_crop(self):
        x = data(100, 50)

        @nki.jit
        def kernel(a):
            out = nl.ndarray((100, 50), nl.float32, buffer=nl.shared_hbm)
            for r in nl.affine_range(2):
                for c in nl.affine_range(2):
                    i, j = nl.mgrid[0:64, 0:32]
                    rows, columns = 64 * r + i, 32 * c + j
                    m = (rows < 100) & (columns < 50)
                    t = nl.load(a[rows, columns], mask=m)
                    nl.store(out[rows, columns], nl.exp(t), mask=m)
            return out
        self.same(kernel(x), np.exp(x))
        self.clean(kernel, x)

    def test_each_way_to_write_a_bound(self):
        i, j = nl.mgrid[0:10, 0:12]
        for m, want in ((lambda: 2 <= i < 7, (2, 7)), (lambda: (i < 7) & (i >= 2), (2, 7)),
                        (lambda: 2 <= i and i < 7, (2, 7)), (lambda: -2 * i + 13 >= 0, (0, 7)),
                        (lambda: ~(i < 3), (3, 10)), (lambda: (i < 3) | (i < 7), (0, 7)),
                        (lambda: (i < 3) | (j < 0), (0, 3))):
            ranges, rest, empty = mask_ranges(m())
            self.assertEqual(ranges.get(0, (0, 10)), want)
            self.assertFalse(rest or empty)
        for m in (j < 4, nl.arange(10) < 7):  # which is of the other axis
            with self.assertRaisesRegex(soma.KernelError, "joined by `&`"):
                (i < 3) | m
        with self.assertRaisesRegex(soma.KernelError, "cannot decide"):
            if i < 3:
                pass
        with self.assertRaisesRegex(soma.KernelError, "cannot decide"):
            (i < 3) or (j < 4)

    def test_a_bound_of_fewer_axes_is_of_the_last_ones(self):
        x, i, j = data(40, 30), nl.arange(40)[:, None], nl.arange(30)
        for mask, keep in (((i < 35) & (j < 8), np.s_[:35, :8]), ((j >= 8) & (i < 35),
                                                                  np.s_[:35, 8:])):
            @nki.jit
            def kernel(a, out):
                nl.store(out[i, j[None, :]], nl.load(a), mask=mask)
            out, want = np.zeros((2, 40, 30), np.float32)
            want[keep] = x[keep]
            kernel(x, out)
            self.same(out, want, 0, 0)
        m = (i + j < 50) & (j < 20)
        self.assertEqual([t.ndim for t in m.limits()[1]], [2])
        self.assertIsNone(effective((i < 40) & (j < 30), (40, 30)))
        self.assertIsNotNone(effective((i < 40) & (j < 29), (40, 30)))

    def test_a_mask_over_two_axes_keeps_the_rest_of_a_store(self):
        x = data(40, 40)

        @nki.jit
        def kernel(a, out):
            i, j = nl.mgrid[0:40, 0:40]
            nl.store(out[i, j], nl.load(a), mask=(j <= i))
        out = np.full((40, 40), 7, np.float32)
        kernel(x, out)
        self.same(out, np.where(np.tri(40) > 0, x, 7), 0, 0)

    def test_a_mask_of_a_store_of_part_of_a_partition(self):
        @nki.jit
        def kernel(a):
            out = nl.zeros((8, 16), nl.float32, buffer=nl.shared_hbm)
            t = nl.ndarray((2, 8, 16), nl.float32, buffer=nl.sbuf)
            t[1] = nl.load(a).reshape((1, 8, 16))
            i, j = nl.mgrid[0:8, 0:16]
            nl.store(out[i, j], t[1, :, :], mask=(i < 5))
            return out
        a = data(1, 128)
        want = a.reshape(8, 16).copy()
        want[5:] = 0
        self.same(kernel(a), want, 0, 0)

    def test_a_mask_of_all_of_a_result_still_cuts_the_operands(self):
        @nki.jit
        def kernel(x, y):
            out = nl.ndarray((64, 512), nl.float32, buffer=nl.shared_hbm)
            rows = nl.arange(128)[:, None]
            nl.store(out, nisa.nc_matmul(nl.load(x), nl.load(y), mask=rows < 64))
            return out
        x, y = data(128, 64), data(128, 512)
        self.same(kernel(x, y), x[:64].T @ y[:64], 1e-4, 1e-4)

    def test_a_mask_that_excludes_all(self):
        x = data(40, 40)

        @nki.jit
        def kernel(a, out):
            i, j = nl.mgrid[0:40, 0:40]
            nl.store(out[i, j], nl.load(a), mask=(i < 0))
        out = x.copy()
        kernel(2 * x, out)
        self.same(out, x, 0, 0)


class Registers(KernelCase):
    def test_an_address_is_affine_in_a_register(self):
        @nki.jit
        def kernel(x, n):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            count = nisa.register_alloc()
            nisa.register_load(count, nl.load(n))
            for i in nl.dynamic_range(count):
                t = nl.ndarray((32, 20), x.dtype)
                nisa.dma_copy(dst=t, src=x[i * 32:(i + 1) * 32, :])
                nisa.activation(dst=t, op=nl.square, data=t)
                nisa.dma_copy(dst=out[nl.ds(i * 32, 32), :], src=t)
            return out
        x = data(128, 20)
        for n in (0, 1, 3, 4):
            got = kernel(x, np.int32([[n]]))
            self.same(got[:32 * n], x[:32 * n] ** 2)
        self.clean(kernel, x, np.int32([[4]]), ignore=("range", "uninit"))

    def test_fori_loop_and_scalar_offset(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray((1, 12), x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((1, 1), x.dtype)

            def body(i):
                nisa.dma_copy(dst=t, src=x.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
                nisa.dma_copy(dst=out.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1), src=t)
            nl.fori_loop(0, 12, body)
            return out
        x = data(1, 12)
        self.same(kernel(x), x, 0, 0)

    def test_loops_as_long_as_a_register_is_not_zero(self):
        @nki.jit
        def bare(n):
            left, total = nl.load(n), nl.full((1, 1), 0, nl.int32)
            one = nl.full((1, 1), 1, nl.int32)
            reg = nisa.register_alloc()
            nisa.register_load(reg, left)
            while reg:
                nisa.tensor_tensor(dst=total, data1=total, data2=left, op=nl.add)
                nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
                nisa.register_load(reg, left)
            out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
            nl.store(out, total)
            return out

        @nki.jit
        def called(n):
            left, total = nl.load(n), nl.full((1, 1), 0, nl.int32)
            one = nl.full((1, 1), 1, nl.int32)
            reg = nisa.register_alloc()
            nisa.register_load(reg, left)

            def body(r):
                nisa.tensor_tensor(dst=total, data1=total, data2=left, op=nl.add)
                nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
                nisa.register_load(r, left)
                return r
            nl.while_loop(reg, body)
            out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
            nl.store(out, total)
            return out
        for kernel in (bare, called):
            for n in (0, 1, 6):
                self.assertEqual(kernel(np.int32([[n]]))[0, 0], n * (n + 1) // 2)

    def test_registers_are_moved_and_stored(self):
        @nki.jit
        def kernel():
            a, out = nisa.register_alloc(5), nl.ndarray((2, 1), nl.int32, buffer=nl.shared_hbm)
            b = nisa.register_alloc()
            nisa.register_move(b, a * 3 + 1)
            nisa.register_store(out[0:1], a)
            nisa.register_store(out[1:2], b)
            return out
        self.assertEqual(kernel().ravel().tolist(), [5, 16])

    def test_a_scalar_offset_in_sbuf(self):
        @nki.jit
        def kernel(x, at):
            i = nl.load(at)
            t = nl.ndarray((64, 20), x.dtype)
            nisa.dma_copy(dst=t, src=x.select(0, i))
            out = nl.ndarray((64, 20), x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=t)
            return out
        x = data(4, 64, 20)
        self.same(kernel(x, np.int32([[2]])), x[2], 0, 0)

    def test_python_does_not_see_a_register(self):
        def use(f):
            @nki.jit
            def kernel():
                f(nisa.register_alloc(3))
            kernel()
        for f in (lambda r: 1 if r else 0, int, lambda r: r < 4, lambda r: range(r)):
            with self.assertRaisesRegex(TypeError, "when the kernel runs"):
                use(f)

    def test_the_register_of_a_loop_is_not_written(self):
        @nki.jit
        def kernel():
            for i in nl.dynamic_range(4):
                nisa.register_move(i, 4)
        with self.assertRaisesRegex(AssertionError, "cannot be written"):
            kernel()


if __name__ == "__main__":
    unittest.main()
