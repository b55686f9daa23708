"""Notebooks in a real kernel of Jupyter: the sample by nbconvert, cells under %%time; skipped where
ipykernel or nbconvert are not installed (python3-ipykernel, jupyter-nbconvert)."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
WHY = ", ".join(
    p for m, p in (("ipykernel", "python3-ipykernel"), ("nbconvert", "jupyter-nbconvert"))
    if not importlib.util.find_spec(m))


def notebook(*cells):
    """A notebook of these cells of code."""
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": c}
        for c in cells]}


def said(cell):
    """What a cell printed and showed, as text."""
    return "".join("".join(o.get("text") or o.get("data", {}).get("text/plain", ""))
                   for o in cell["outputs"])


@unittest.skipIf(WHY, WHY + " not installed")
class Notebook(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name

    def tearDown(self):
        self.scratch.cleanup()

    def run_it(self, *words, **more):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env=dict(
            os.environ, SOMA_PYTHON=sys.executable, HOME=self.folder, PYTHONDONTWRITEBYTECODE="1",
            JUPYTER_PATH=os.path.join(self.folder, "share", "jupyter"), NO_COLOR="1",
            PYDEVD_DISABLE_FILE_VALIDATION="1", **more))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def execute(self, book, *options):
        """The cells of code of a notebook after nbconvert has executed them."""
        shown = self.run_it(COMMAND, *options, "--install-kernelspec", self.folder)
        self.assertRegex(shown, "/kernels/soma-nki: the kernel soma-nki of Jupyter\n$")
        with open(os.path.join(self.folder, "book.ipynb"), "w") as f:
            json.dump(book, f)
        self.run_it(sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute",
                    "--allow-errors", "--ExecutePreprocessor.kernel_name=soma-nki", "--output",
                    "done.ipynb", "book.ipynb")
        with open(os.path.join(self.folder, "done.ipynb")) as f:
            cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
        for number, cell in enumerate(cells, 1):
            self.assertEqual(cell["execution_count"], number)
        return cells

    def test_the_sample(self):
        with open(os.path.join(ROOT, "samples/nki/notebook.ipynb")) as f:
            cells = self.execute(json.load(f))
        errors = [o for c in cells for o in c["outputs"] if o["output_type"] == "error"]
        self.assertEqual(errors, [])
        _, kernel, run, check, inside, session, debug = cells
        self.assertIn("right: True\n", said(kernel))
        shown = run["outputs"][0]["data"]
        self.assertRegex("".join(shown["text/plain"]), r"^<run of rmsnorm on trn2: [\d.]+ us, ")
        self.assertIn("<iframe", "".join(shown["text/html"]))
        self.assertEqual(said(check), "[]")
        self.assertRegex(said(inside), r"^In\[2\]")
        self.assertRegex(said(inside), r" In\[2\]:10\n")
        self.assertIn("<svg", "".join(session["outputs"][-1]["data"]["text/html"]))
        self.assertRegex(said(debug), r"stop 1 at [\d.]+ ns: scalar \d+ \(In\[2\]:11\)")
        self.assertRegex(said(debug), r"\n> +11 +nisa.activation_reduce\(dst=squares, op=nl.square")

    def test_cells_under_time(self):
        define = ("%%time\n@nki.jit\ndef kernel(a):\n"
                  "    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)\n"
                  "    t = nl.load(a)\n    nl.store(out, helper(t))\n    return out\n"
                  "def helper(t):\n    return nl.exp(t)\nkernel(x).shape")
        cells = self.execute(notebook(
            "import numpy as np, nki, nki.isa as nisa, nki.language as nl, soma\n"
            "x = np.ones((128, 64), np.float32)", define,
            "print(kernel.run(x).source())",
            "%%time\n\nwith soma.session() as s:\n    kernel(x)\nprint(s.calls[0].place)",
            "%%time\n@nki.jit\ndef bad(a):\n    nisa.activation(dst=a, op=nl.exp, data=a)\nbad(x)",
            "print('def helper' in kernel.run(x).page())",
            "!python3 -c 'import nki; print(nki.__file__)'", "import os\nos.getpid()"))
        self.assertIn("(128, 64)", said(cells[1]))
        source = said(cells[2])
        self.assertIn("out tensor float32[128,64], output", source)
        self.assertEqual([n for n in re.findall(r'%line (\d+) "In\[2\]"', source)], ["9", "6", "5"],
                         source)
        self.assertRegex(said(cells[3]), r"^In\[4\]:4\n")
        error = cells[4]["outputs"][-1]
        self.assertEqual(error["ename"], "KernelError")
        self.assertRegex(error["evalue"], r"^In\[5\]:4: activation dst: ")
        self.assertEqual(said(cells[5]), "True\n")
        self.assertIn(os.path.join(ROOT, "python", "nki"), said(cells[6]))

    def test_options_look_at_the_calls_of_cells(self):
        cells = self.execute(notebook(
            "import numpy as np, nki, nki.isa as nisa, nki.language as nl\n"
            "@nki.jit\ndef kernel(a):\n"
            "    out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)\n"
            "    t = nl.ndarray((128, 64), a.dtype, buffer=nl.sbuf)\n"
            "    nisa.dma_copy(dst=t[0:64], src=a[0:64])\n    nisa.dma_copy(dst=out, src=t)\n"
            "    return out\nkernel(np.ones((128, 64), np.float32)).shape"), "--check=uninit")
        self.assertRegex(said(cells[0]), r"kernel call 1, kernel: In\[1\]:7: uninit: ")


if __name__ == "__main__":
    unittest.main()
