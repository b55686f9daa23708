"""The plugin of pytest; skipped where pytest is not installed (python3-pytest)."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.abspath(os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki"))
TESTS = '''
import numpy as np, pytest
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def half(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[0:1], src=x[0:1])
    nisa.dma_copy(dst=y, src=t)
    return y

@nki.jit
def twice(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x) * 2)
    return y

X = np.ones((4, 16), np.float32)

def test_half():
    assert half(X)[0, 0] == 1

def test_twice():
    assert twice(X)[3, 3] == 2

def test_fixture(soma_check):
    assert soma_check(twice, X)[3, 3] == 2
    soma_check(half, X, checks="race", schedules=1)

def test_fixture_finds(soma_check):
    soma_check(half, X)
'''


@unittest.skipUnless(importlib.util.find_spec("pytest"), "python3-pytest is not installed")
class Plugin(unittest.TestCase):
    def pytest(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_kernels.py"), "w") as f:
                f.write(TESTS)
            done = subprocess.run(
                [COMMAND, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *words],
                cwd=folder, capture_output=True, text=True,
                env=dict(os.environ, SOMA_PYTHON=sys.executable, PYTHONDONTWRITEBYTECODE="1"))
            return done.returncode, done.stdout + done.stderr

    def test_without_options_only_the_fixture_checks(self):
        status, said = self.pytest()
        self.assertEqual(status, 1, said)
        self.assertIn("1 failed, 3 passed", said)
        self.assertRegex(said, r"_ test_fixture_finds _+\ntest_kernels.py:10: uninit: ")

    def test_every_call_is_checked(self):
        status, said = self.pytest("--soma-check", "-k", "half or twice")
        self.assertEqual(status, 1, said)
        self.assertIn("1 failed, 1 passed", said)
        self.assertRegex(said, r"kernel call 1, half: test_kernels.py:10: uninit: ")
        self.assertIn("2 passed", self.pytest("--soma-check=race", "--soma-schedules=2", "-k",
                                              "half or twice")[1])

    def test_options_that_are_wrong(self):
        status, said = self.pytest("--soma-check=foo")
        self.assertEqual(status, 4, said)
        self.assertIn("soma: --check=foo: no check is called 'foo'", said)
