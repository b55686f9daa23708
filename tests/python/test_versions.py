"""A tile that each iteration overwrites or declares is told apart by its line and the iteration:
in findings, warnings, errors, the report, the debugger, and after a program was saved."""
import contextlib
import io
import re
import unittest
import warnings

import numpy as np

import neuronxcc.nki as older
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki
import nki.isa as isa
import soma
from soma import inside
from helper import KernelCase
from soma.errors import KernelError

X = np.linspace(-1, 1, 512 * 512, dtype=np.float32).reshape(512, 512)


def rows(i):
    return slice(i * 128, (i + 1) * 128)


def out(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


@older.jit
def overwritten(x):
    y = out(x)
    a = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(4):
        a[...] = nl.load(x[rows(i), :])  # LOAD
        a[...] = nl.multiply(a, 1000.0 * i)  # SCALED
        nl.store(y[rows(i), :], nl.copy(nl.copy(a, dtype=nl.int8), dtype=nl.float32))
    return y


@nki.jit
def declared(x):
    y = out(x)
    for i in range(3):
        z = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)  # DECLARED
        isa.dma_copy(dst=z[:, :512 if i < 2 else 256], src=x[rows(i), :512 if i < 2 else 256])
        isa.dma_copy(dst=y[rows(i), :], src=z)
    return y


@older.jit
def masked(x):
    y = out(x)
    t = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(3):
        t[...] = nl.load(x[rows(i), :])  # LOADED
        e = nl.exp(t, mask=nl.arange(128)[:, None] < 128 - 28 * (i // 2))  # MASKED
        nl.store(y[rows(i), :], e)
    return y


@nki.jit
def too_many(x):
    y = out(x)
    kept = []
    for i in range(4):
        t = nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf)  # KEPT
        isa.memset(dst=t, value=float(i))
        kept.append(t)
    for t in kept:
        isa.dma_copy(dst=y[0:128, :], src=t[:, 0:512])
    return y


@older.jit
def many_at_once(x):
    y = out(x)
    for i in range(2):
        a = nl.load(x[rows(i), :])
        b = nl.multiply(nl.exp(nl.multiply(a, 2.0)), nl.exp(nl.multiply(a, 4.0)))  # AT ONCE
        nl.store(y[rows(i), :], b)
    return y


def line_of(mark):
    with open(__file__) as f:
        return next(n for n, line in enumerate(f, 1) if line.rstrip().endswith("# " + mark))


class Versions(KernelCase):
    def told(self, kernel, check):
        """The text of what a check finds, lines of this file as L and its marks' names."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return next(str(f) for f in kernel.check(X) if (": %s: " % check) in str(f))

    def tiles(self, kernel, *names):
        report = kernel.report(X)
        report = report[report.index("\ntiles"):report.index("\nwaits")]
        return dict(re.findall(r"\n  (%s) .*(\(of line .*\))" % "|".join(names), report))

    def test_range_of_a_version(self):
        self.assertIn("reads element [0, 0] of tile a_2 (of line %d, iteration 2), float32"
                      % line_of("LOAD"), self.told(overwritten, "range"))

    def test_uninit_of_a_tile_of_an_iteration(self):
        name = "tile e (of line %d, iteration 3)" % line_of("MASKED")
        self.assertIn("(%s); one is element [100, 0] of %s\n" % (name, name),
                      self.told(masked, "uninit"))
        name = "tile z (of line %d, iteration 3) (element [0, 256])" % line_of("DECLARED")
        self.assertIn("of partition 0 of " + name, self.told(declared, "uninit"))
        with self.assertWarnsRegex(UserWarning, re.escape(name)):
            nki.jit(declared.func)(X)

    def test_the_report_names_versions_and_what_merges_made_one(self):
        load, at_once = line_of("LOADED"), line_of("AT ONCE")
        self.assertEqual(self.tiles(masked, "t", "t_2"), {
            "t": "(of line %d, iteration 3)" % load,
            "t_2": "(of line %d, iterations 1 to 2)" % load})
        # Ten temporaries of two iterations: which are of which is not known. One of each, the
        # fifth and the tenth, are stored at once.
        numbers = {"(of line %d, number %d)" % (at_once, n) for n in range(1, 10) if n != 5}
        self.assertEqual(set(self.tiles(many_at_once, r"b\w*").values()),
                         numbers | {"(of line %d)" % at_once})

    def test_out_of_memory(self):
        with self.assertRaises(KernelError) as caught:
            too_many(X)
        n = line_of("KEPT")
        self.assertIn("tile t (of line %d, iteration 4) of 65536 bytes" % n, str(caught.exception))
        for i in (1, 2, 3):
            self.assertIn("\n  t (of line %d, iteration %d): 65536 bytes at" % (n, i),
                          str(caught.exception))

    def test_the_debugger(self):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            overwritten.debug(X, commands="info tiles")
        self.assertEqual(re.findall(r"\n  (a\w*) .* (of line .*)", told.getvalue()),
                         [("a" + ("_%d" % i if i > 1 else ""),
                           "of line %d, iteration %d" % (line_of("LOAD"), i)) for i in range(1, 5)])

    def test_a_program_that_was_saved(self):
        program = overwritten.program(X)
        before = inside.tiles(program)
        after = inside.tiles(soma.Machine("trn2").load(program.bytes()))
        self.assertTrue(any(t.origin for t in before.values()))
        self.assertEqual({n: t.origin for n, t in before.items()},
                         {n: t.origin for n, t in after.items()})

    def test_its_text(self):
        for kernel in (overwritten, many_at_once, masked):
            program = kernel.program(X)
            self.assertIn(", of=[%d" % line_of("AT ONCE" if kernel is many_at_once else
                                               "LOAD" if kernel is overwritten else "LOADED"),
                          program.source())
            self.assertEqual(soma.Machine("trn2").assemble(program.source()).bytes(),
                             program.bytes())
        with self.assertRaisesRegex(soma.SomaError, "count of iterations"):
            soma.Machine("trn2").assemble("t tile sbuf float32[1,1], of=[1, 2, 0]\n")


if __name__ == "__main__":
    unittest.main()
