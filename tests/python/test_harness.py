"""tests/nki/harness.py: a kernel that is wrong, not clean, or never runs is counted as failed."""
import contextlib
import io
import os
import sys
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "nki"))
import harness  # noqa: E402


@nki.jit
def double(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def half_read(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:1], src=x[0:1])
    nisa.dma_copy(dst=out, src=out)
    return out


X = np.arange(64, dtype=np.float32).reshape(4, 16)


class Harness(unittest.TestCase):
    def row(self, run, **options):
        table, text = harness.Table(), io.StringIO()
        with contextlib.redirect_stdout(text):
            table.case("ours", "here.py", "name", run, **options)
        return (table.passed, table.failed), text.getvalue()

    def test_right_result(self):
        counts, text = self.row(lambda: harness.close(double(X), 2 * X), published=7)
        self.assertEqual(counts, (1, 0))
        self.assertIn("ours | here.py | name (double) | 4x16 | trn2 | ok | error 0.0e+00 | ", text)
        self.assertIn("published 7 us", text)

    def test_wrong_result(self):
        counts, text = self.row(lambda: harness.close(double(X), 3 * X))
        self.assertEqual(counts, (0, 1))
        self.assertIn("FAILED: AssertionError: Not equal to tolerance", text)

    def test_right_result_that_is_not_clean(self):
        counts, text = self.row(lambda: harness.close(half_read(X)[0], X[0]))
        self.assertEqual(counts, (0, 1))
        self.assertIn("FAILED: AssertionError: uninit: ", text)

    def test_finding_of_the_kernel_itself(self):
        def known(words):
            return "uninit", words, "its copy reads three rows too many"
        counts, text = self.row(lambda: harness.close(half_read(X)[0], X[0]),
                                known=known("of tensor out"))
        self.assertEqual(counts, (1, 0))
        self.assertIn("ok, finds uninit: its copy reads three rows too many", text)
        counts, text = self.row(lambda: harness.close(half_read(X)[0], X[0]), known=known("other"))
        self.assertEqual(counts, (0, 1))
        counts, text = self.row(lambda: harness.close(double(X), 2 * X), known=known(""))
        self.assertEqual(counts, (0, 1))
        self.assertIn("the checks do not find uninit", text)

    def test_no_kernel(self):
        counts, text = self.row(lambda: None)
        self.assertEqual(counts, (0, 1))
        self.assertIn("no kernel ran", text)

    def test_refused_as_it_should_be(self):
        def run():
            return harness.refused(lambda: double(np.zeros((200, 16), np.float32)), "200")
        counts, text = self.row(run)
        self.assertEqual(counts, (1, 0))
        self.assertIn("ok, refused: ", text)

    def test_refused_for_another_reason(self):
        def run():
            return harness.refused(lambda: double(np.zeros((200, 16), np.float32)), "no such word")
        self.assertEqual(self.row(run)[0], (0, 1))

    def test_another_target(self):
        counts, text = self.row(lambda: harness.close(double(X), 2 * X), also=("trn3",))
        self.assertEqual(counts, (2, 0))
        self.assertIn("| trn3 | ok |", text)


if __name__ == "__main__":
    unittest.main()
