"""Advice: for each kind a kernel with that fault, what its fix saves, and kernels without."""
import contextlib
import io
import re
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from helper import KernelCase


def tile(columns=512):
    return nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)


def output(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


def rows(i):
    return slice(i * 128, (i + 1) * 128)


def repeated(x, w, once=False):
    y = output(x)
    u = tile()
    if once:
        nisa.dma_copy(dst=u, src=w)
    for i in range(8):
        t = tile()
        nisa.dma_copy(dst=t, src=x[rows(i), :])
        if not once:
            u = tile()
            nisa.dma_copy(dst=u, src=w)  # LOAD
        nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def same_value(x, once=False):
    y = output(x)
    for i in range(8):
        t = tile()
        nisa.dma_copy(dst=t, src=x[rows(i), :])
        if not once or i == 0:
            count = tile(2048)
            nisa.iota(count, [[1, 2048]], offset=0)  # VALUE
        nisa.tensor_tensor(dst=t, data1=t, data2=count[:, :512], op=nl.add)
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def one_tile(x, each=False):
    y = output(x)
    t = tile()
    for i in range(8):
        if each:
            t = tile()
        nisa.dma_copy(dst=t, src=x[rows(i), :])  # TILE
        nisa.activation(dst=t, data=t, op=nl.exp)
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def unread(x, without=False):
    y = output(x)
    z = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.private_hbm)
    for i in range(8):
        t = tile()
        nisa.dma_copy(dst=t, src=x[rows(i), :])
        if not without or i == 7:
            nisa.dma_copy(dst=z, src=t)  # UNREAD
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def slow_engine(x, engine=nisa.gpsimd_engine):
    y = output(x)
    t, u = tile(), tile()
    nisa.dma_copy(dst=t, src=x[rows(0), :])
    for i in range(8):
        nisa.activation(dst=u, data=t, op=nl.exp)
        nisa.tensor_copy(dst=t, src=u, engine=engine)  # ENGINE
    for i in range(8):
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def narrow(x, wide=False):
    y = output(x)
    n = 512 if wide else 64
    for i in range(8):
        t = tile()
        for j in range(512 // n):
            part = tile(n)
            nisa.dma_copy(dst=part, src=x[rows(i), j * n:(j + 1) * n])  # ROWS
            nisa.activation(dst=t[:, j * n:(j + 1) * n], data=part, op=nl.copy)
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def narrow_stores(x, wide=False):
    y = output(x)
    n = 512 if wide else 64
    for i in range(8):
        t = tile()
        nisa.dma_copy(dst=t, src=x[rows(i), :])
        for j in range(512 // n):
            part = tile(n)
            nisa.activation(dst=part, data=t[:, j * n:(j + 1) * n], op=nl.copy)
            nisa.dma_copy(dst=y[rows(i), j * n:(j + 1) * n], src=part)  # STORES
    return y


def turned(x, dense=False):
    y = output(x)
    for i in range(8):
        t = tile()
        pattern = [[512, 128], [1, 512]] if dense else [[1, 128], [128, 512]]
        nisa.dma_copy(dst=t, src=x.ap(pattern=pattern, offset=i * 128 * 512))  # DENSE
        nisa.dma_copy(dst=y[rows(i), :], src=t)
    return y


def in_order(x):
    y = output(x)
    for i in range(8):
        t, u = tile(), tile()
        nisa.dma_copy(dst=t, src=x[rows(i), :])
        nisa.activation(dst=u, data=t, op=nl.exp)
        nisa.activation(dst=u, data=u, op=nl.exp)
        nisa.tensor_tensor(dst=u, data1=u, data2=t, op=nl.add)
        nisa.activation(dst=u, data=u, op=nl.exp)
        nisa.dma_copy(dst=y[rows(i), :], src=u)
    return y


def line_of(mark):
    with open(__file__) as f:
        return next(n for n, line in enumerate(f, 1) if line.rstrip().endswith("# " + mark))


class Advice(KernelCase):
    x = np.linspace(-1, 1, 1024 * 512, dtype=np.float32).reshape(1024, 512)

    def told(self, f, *args, kind, mark=None, fixed=None, **jit):
        """The advice of that kind for a kernel: it has the line, and saves what the fix does."""
        kernel = nki.jit(f, **jit)
        found = kernel.advice(*args)
        mine = [a for a in found if a.kind == kind and mark in (None, "") or
                a.kind == kind and a.line == line_of(mark)]
        self.assertEqual(len(mine), 1, found)
        before = kernel.time(*args)
        self.assertGreater(mine[0].saved_us, before / 100)
        self.assertEqual(found, sorted(found, key=lambda a: -a.saved_us))
        if fixed:
            after = nki.jit(f, **jit).time(*args, **fixed)
            self.assertAlmostEqual(mine[0].saved_us, before - after, delta=before / 20)
            again = nki.jit(f, **jit).advice(*args, **fixed)
            self.assertFalse([a for a in again if a.kind == kind and
                              (kind != "rows" or a.line == mine[0].line)], again)
        return mine[0]

    def test_a_load_that_repeats(self):
        a = self.told(repeated, self.x, self.x[:128], kind="load", mark="LOAD",
                      fixed={"once": True})
        self.assertEqual((a.name, a.times, a.instruction), ("u", 8, "dma_copy"))
        self.assertEqual(a.text, "8 times, 7 of them of what a tile has: load it once, before the "
                         "loop")

    def test_a_computation_that_repeats(self):
        a = self.told(same_value, self.x, kind="value", mark="VALUE", fixed={"once": True})
        self.assertEqual(a.text, "8 times, 7 of them the same again: once, before the loop")

    def test_one_tile_for_all_rounds(self):
        a = self.told(one_tile, self.x, kind="tile", mark="TILE", fixed={"each": True})
        self.assertEqual(a.text, "it overwrites a tile that is still in use: make one for each "
                         "time, in the loop")

    def test_what_nothing_reads(self):
        a = self.told(unread, self.x, kind="unread", mark="UNREAD", fixed={"without": True})
        self.assertEqual((a.name, a.text), ("z", "7 of 8 write what is overwritten before anything "
                                            "reads it: leave them out"))

    def test_an_engine(self):
        a = self.told(slow_engine, self.x, kind="engine", mark="ENGINE",
                      fixed={"engine": nisa.vector_engine})
        self.assertEqual((a.engine, a.text), ("vector", "engine=vector"))

    def test_narrow_tiles(self):
        a = self.told(narrow, self.x, kind="rows", mark="ROWS")
        self.assertEqual(a.text, "rows of 256 bytes: 8 tiles in one transfer, rows of 2048 bytes")
        b = self.told(narrow_stores, self.x, kind="rows", mark="STORES")
        self.assertEqual(b.text, a.text)
        for f, one in ((narrow, a), (narrow_stores, b)):  # the fix also has fewer instructions
            kernel = nki.jit(f)
            self.assertLess(one.saved_us, kernel.time(self.x) - kernel.time(self.x, True) + 1)
            self.assertFalse([a for a in kernel.advice(self.x, True) if a.kind == "rows"])

    def test_elements_that_do_not_lie_one_after_another(self):
        a = self.told(turned, self.x, kind="rows", mark="DENSE", fixed={"dense": True})
        self.assertEqual(a.text, "rows of 4 bytes in HBM: a tensor in which the elements of a "
                         "partition's row, 2048 bytes, lie one after another")

    def test_the_order(self):
        a = self.told(in_order, self.x, kind="order")
        self.assertEqual((a.line, a.file, a.instruction), (None, None, None))
        after = nki.jit(in_order, style="neuronxcc")  # whose compiler chooses the order
        self.assertNotIn("order", [a.kind for a in after.advice(self.x)])

    def test_kernels_without_fault_and_passes_that_are_on(self):
        good = nki.jit(one_tile)
        self.assertEqual(good.advice(self.x, True), [])
        self.assertEqual(repr(good.advice(self.x, True)), "nothing that was tried saves time")
        for f, args in ((repeated, (self.x, self.x[:128])), (one_tile, (self.x,)),
                        (unread, (self.x,))):
            older = nki.jit(f, style="neuronxcc")
            self.assertFalse([a for a in older.advice(*args) if a.kind not in ("engine", "rows")])
            self.assertTrue(nki.jit(f, style="neuronxcc", optimize=0).advice(*args))

    def test_the_report_ends_with_it(self):
        text = nki.jit(repeated).report(self.x, self.x[:128])
        end = text[text.index("\nadvice"):]
        end = re.sub(r"\d+\.\d{3}", "T", re.sub(r" +(\d+\.\d{3})", r" \1", end))
        self.assertEqual(re.sub(r"\d+ variants", "N variants", end), (
            "\nadvice, us that each saves alone, of T (N variants):\n"
            " T  %s:%d (u): dma_copy: 8 times, 7 of them of what a tile has: load it once, before "
            "the loop\n" % (nki.jit(repeated).advice(self.x, self.x[:128])[0].file,
                            line_of("LOAD"))))

    def test_both_cores(self):
        @nki.jit
        def halves(x, w):
            y, me = output(x), nl.program_id(0)
            for i in range(4):
                t, u = tile(), tile()
                nisa.dma_copy(dst=t, src=x[nl.ds((me * 4 + i) * 128, 128), :])
                nisa.dma_copy(dst=u, src=w)  # BOTH
                nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)
                nisa.dma_copy(dst=y[nl.ds((me * 4 + i) * 128, 128), :], src=t)
            return y
        found = halves[2].advice(self.x, self.x[:128])
        self.assertEqual([a.line for a in found if a.kind == "load"], [line_of("BOTH")])
        self.assertEqual(halves[2].report(self.x, self.x[:128]).count("\nadvice"), 1)

    def test_numbers_are_the_same_each_time(self):
        a, b = (nki.jit(in_order).advice(self.x) for _ in range(2))
        self.assertEqual(a, b)


if __name__ == "__main__":
    unittest.main()
