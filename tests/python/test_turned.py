"""Transposes: of each size, engine and style, under masks, of each type, from PSUM."""
import unittest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
from helper import KernelCase, data, of_tiles

import nki
from soma.errors import KernelError, NotBuilt

VECTOR, TENSOR = nisa.engine.vector, nisa.engine.tensor


def whole(rows, columns):
    """Whole numbers that every type holds, all different enough to show a wrong place."""
    return (np.arange(rows * columns).reshape(rows, columns) * 7 % 9).astype(np.float32)


class Transposes(KernelCase):
    def test_each_size_in_the_old_style(self):
        for rows, columns in ((32, 32), (64, 64), (128, 128), (33, 5), (5, 100), (96, 70),
                              (128, 1)):
            a = data(rows, columns)
            for engine in VECTOR, TENSOR:
                with self.subTest(shape=(rows, columns), engine=engine):
                    kernel = of_tiles(lambda x: nisa.nc_transpose(x, engine=engine),
                                      (columns, rows))
                    self.same(kernel(a), a.T, 0, 0)
                    self.clean(kernel, a)

    def test_other_views_on_vector(self):
        a = data(64, 96)

        def kernel(x):
            y = nl.ndarray((96, 128), nl.float32, buffer=nl.sbuf)
            y[:, 0:128:2] = nisa.nc_transpose(x, engine=VECTOR)
            cube = x.reshape((64, 3, 32)).permute((0, 2, 1))
            y[:, 1:128:2] = nisa.nc_transpose(cube, engine=VECTOR)
            return y
        got = of_tiles(kernel, (96, 128))(a)
        self.same(got[:, 0::2], a.T, 0, 0)
        self.same(got[:, 1::2], a.reshape(64, 3, 32).transpose(2, 1, 0).reshape(96, 64), 0, 0)

    def test_a_tile_over_itself(self):
        a = data(64, 64)

        def kernel(x):
            x[...] = nisa.nc_transpose(x, engine=VECTOR)
            return x
        self.same(of_tiles(kernel)(a), a.T, 0, 0)

    def test_the_new_style_has_the_limits_of_the_engines(self):
        def into(shape, memory, **more):
            def kernel(x):
                d = nl.ndarray(shape[::-1], nl.float32, buffer=memory)
                nisa.nc_transpose(dst=d, data=x[0:shape[0], 0:shape[1]], **more)
                return nl.copy(d)
            return of_tiles(kernel, shape[::-1])
        a = data(128, 128)
        for shape, memory, more in (((128, 128), nl.psum, {}), ((32, 32), nl.sbuf, {}),
                                    ((20, 32), nl.sbuf, {"engine": VECTOR}),
                                    ((7, 5), nl.psum, {"engine": VECTOR})):
            self.same(into(shape, memory, **more)(a), a[:shape[0], :shape[1]].T, 0, 0)
        for shape, memory, more in (((128, 128), nl.sbuf, {}), ((64, 32), nl.sbuf, {}),
                                    ((64, 64), nl.psum, {"engine": VECTOR}),
                                    ((32, 33), nl.sbuf, {"engine": VECTOR})):
            with self.assertRaisesRegex(KernelError, "%d x %d: vector transposes at most 32 x 32"
                                        % shape):
                into(shape, memory, **more)(a)

    def test_masks_are_of_the_axes_of_data(self):
        a = data(48, 100)
        i, j = np.indices((48, 100))
        for call in (lambda x, m: nisa.nc_transpose(x, mask=m),
                     lambda x, m: nisa.nc_transpose(x, mask=m, engine=VECTOR),
                     lambda x, m: nl.transpose(x, mask=m)):
            for rows, columns in ((48, 64), (32, 100), (17, 5), (48, 100), (50, 120), (0, 9)):
                def kernel(x):
                    p, q = nl.mgrid[0:48, 0:100]
                    return call(x, (p < rows) & (q < columns))
                self.same(of_tiles(kernel, (100, 48))(a),
                          np.where((i < rows) & (j < columns), a, 0).T, 0, 0)

    def test_a_mask_leaves_what_an_assignment_does_not_reach(self):
        a = data(32, 64)

        def kernel(x):
            y = nl.full((64, 32), 7, nl.float32, buffer=nl.sbuf)
            p, q = nl.mgrid[0:32, 0:64]
            y[...] = nisa.nc_transpose(x, mask=q < 40)
            z = nl.full((64, 32), 8, nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=z, data=x, mask=q < 32)
            return nl.add(y, nl.copy(z))
        want = np.concatenate([2 * a[:, :32], a[:, 32:40] + 8, np.full((32, 24), 15)], 1).T
        self.same(of_tiles(kernel, (64, 32))(a), want)

    def test_a_mask_over_several_axes_is_refused(self):
        def kernel(x):
            p, q = nl.mgrid[0:48, 0:100]
            return nisa.nc_transpose(x, mask=p < q)
        with self.assertRaisesRegex(NotBuilt, "nc_transpose: mask i0 < i1"):
            of_tiles(kernel, (100, 48))(data(48, 100))

    def test_each_type(self):
        a = whole(64, 32)
        for name in ("float8_e4m3", "float8_e5m2", "bfloat16", "float16", "uint8", "int8", "int32",
                     "float32"):
            for call in (lambda x: nisa.nc_transpose(x), lambda x: nl.transpose(x),
                         lambda x: nisa.nc_transpose(x, engine=VECTOR)):
                def kernel(x):
                    t = nl.copy(x, dtype=getattr(nl, name))
                    return nl.copy(call(t), dtype=nl.float32)
                with self.subTest(name):
                    self.same(of_tiles(kernel, (32, 64))(a), a.T, 0, 0)

    def test_from_psum(self):
        a = data(128, 128)

        def kernel(x):
            t = nisa.nc_transpose(x)
            return nl.copy(nisa.nc_transpose(t))
        self.same(of_tiles(kernel)(a), a, 0, 0)

    def test_load_transpose2d(self):
        a = data(20, 3, 6)

        @nki.jit
        def kernel(x):
            out = nl.ndarray((18, 20), x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load_transpose2d(x))
            return out
        self.same(kernel(a), a.reshape(20, 18).T, 0, 0)
        with self.assertRaisesRegex(KernelError, r"load_transpose2d of \[1, 20, 18\]: two"):
            kernel(a.reshape(1, 20, 18))

        @nki.jit
        def masked(x):
            out = nl.ndarray((18, 20), x.dtype, buffer=nl.shared_hbm)
            p, q = nl.mgrid[0:20, 0:18]
            nl.store(out, nl.load_transpose2d(x[p, q], mask=(p < 13) & (q < 7)))
            return out
        i, j = np.indices((20, 18))
        flat = a.reshape(20, 18)
        self.same(masked(flat), np.where((i < 13) & (j < 7), flat, 0).T, 0, 0)


if __name__ == "__main__":
    unittest.main()
