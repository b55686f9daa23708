"""Sums in PSUM over loops at run time, for each way to make the tile, to loop and to add."""
import itertools
import unittest
import warnings

import numpy as np
from helper import KernelCase, counting_down

import nki
import nki.isa as nisa
import nki.language as nl
from soma.errors import KernelError

WIDE = (128, 256)


def _memset():
    p = nl.ndarray(WIDE, nl.float32, buffer=nl.psum)
    nisa.memset(dst=p, value=0.0)
    return p


ALLOCATIONS = {
    "zeros": lambda: nl.zeros(WIDE, nl.float32, buffer=nl.psum),
    "full": lambda: nl.full(WIDE, 0.0, nl.float32, buffer=nl.psum),
    "memset": _memset,
    "ndarray": lambda: nl.ndarray(WIDE, nl.float32, buffer=nl.psum)}


def dynamic(n, body):
    for _ in nl.dynamic_range(n):
        body()


def by_register(n, body):
    for _ in nl.dynamic_range(nisa.register_alloc(n)):
        body()


def by_while(n, body):
    r, less = counting_down(n)
    while r:
        body()
        less(r)


def by_while_loop(n, body):
    r, less = counting_down(n)

    def round_(given):
        body()
        return less(given)
    nl.while_loop(r, round_)


def nested(n, body):
    for _ in nl.dynamic_range(1):
        for _ in nl.dynamic_range(n):
            body()


KINDS = {"dynamic_range": dynamic, "register": by_register, "nested": nested, "while": by_while,
         "fori_loop": lambda n, body: nl.fori_loop(0, n, lambda i: body()),
         "while_loop": by_while_loop}


def _plus(p, x, y):
    p += nisa.nc_matmul(x, y)


def _plus_all(p, x, y):
    p[...] += nl.matmul(x, y, transpose_x=True)


def _into(p, x, y):
    nisa.nc_matmul(dst=p, stationary=x, moving=y)


def _adds(p, x, y):
    nisa.nc_matmul(dst=p, stationary=x, moving=y, accumulate=True)


def _halves(p, x, y):
    nisa.nc_matmul(p[:, 0:128], x, y[:, 0:128])
    nisa.nc_matmul(p[:, 128:256], x, y[:, 128:256])


FORMS = {f.__name__: f for f in (_plus, _plus_all, _into, _adds, _halves)}


class Sums(KernelCase):
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (128, 128)).astype(np.float32)
    b = rng.integers(-3, 4, (128, 256)).astype(np.float32)

    def kernel(self, allocate, loop, add, n):
        @nki.jit
        def kernel(a, b):
            out = nl.ndarray(WIDE, a.dtype, buffer=nl.shared_hbm)
            x, y = nl.load(a), nl.load(b)
            o = nl.ndarray((128, 8, 64), nl.float32, buffer=nl.sbuf)
            for j in range(8):  # each bank holds something
                q = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
                nisa.memset(dst=q, value=7.0)
                nisa.tensor_copy(dst=o[:, j, :], src=q[:, 0:64])
            p = allocate()
            loop(n, lambda: add(p, x, y))
            nl.store(out, nl.copy(p))
            return out
        return kernel

    def test_each_allocation_loop_and_form_gives_the_sum(self):
        once = self.a.T @ self.b
        for names in itertools.product(ALLOCATIONS, KINDS, FORMS):
            allocation, kind, form = names
            if allocation == "ndarray" and form == "_adds":
                continue
            for n in (0, 1, 3) if allocation != "ndarray" else (1, 3):
                with self.subTest(names=names, n=n):
                    kernel = self.kernel(ALLOCATIONS[allocation], KINDS[kind], FORMS[form], n)
                    np.testing.assert_array_equal(kernel(self.a, self.b), n * once)

    def test_adding_to_what_nothing_has_written_is_refused(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(KernelError, "which nothing has written before"):
                self.kernel(ALLOCATIONS["ndarray"], dynamic, _adds, 3)(self.a, self.b)

    def test_a_place_that_is_known_at_run_time(self):
        @nki.jit
        def kernel(a, b, at):
            out = nl.ndarray(WIDE, a.dtype, buffer=nl.shared_hbm)
            x, y, i = nl.load(a), nl.load(b), nl.load(at)
            p = nl.zeros(WIDE, nl.float32, buffer=nl.psum)
            for k in range(2):
                place = p.ap([[256, 128], [1, 64]], scalar_offset=i[:, k:k + 1], indirect_dim=1)
                nisa.nc_matmul(place, x, y[:, 0:64])
            for k in nl.dynamic_range(2):
                nisa.nc_matmul(p[:, nl.ds(k * 64, 64)], x, y[:, 64:128])
            nl.store(out, nl.copy(p))
            return out
        once = self.a.T @ self.b
        for places in ((0, 64), (192, 64), (128, 128), (32, 0)):
            want = np.zeros(WIDE, np.float32)
            for at in places:
                want[:, at:at + 64] += once[:, 0:64]
            want[:, 0:64] += once[:, 64:128]
            want[:, 64:128] += once[:, 64:128]
            np.testing.assert_array_equal(kernel(self.a, self.b, np.int32([places])), want)

    def test_a_first_round_that_writes(self):
        def run(n, make):
            @nki.jit
            def kernel(a, b):
                out = nl.ndarray(WIDE, a.dtype, buffer=nl.shared_hbm)
                x, y = nl.load(a), nl.load(b)
                p, first = nl.ndarray(WIDE, nl.float32, buffer=nl.psum), True
                for _ in nl.dynamic_range(make(n)):
                    nisa.nc_matmul(dst=p, stationary=x, moving=y, accumulate=not first)
                    first = False
                nl.store(out, nl.copy(p))
                return out
            return kernel(self.a, self.b)
        for make in (int, nisa.register_alloc):
            for n in (1, 2, 5):
                np.testing.assert_array_equal(run(n, make), n * (self.a.T @ self.b))


if __name__ == "__main__":
    unittest.main()
