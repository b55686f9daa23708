"""nkipy: kernels of its examples. Those of its tests run through the package and its compiler."""
import os

import numpy as np

import harness
import nki
import nki.language as nl

FOLDER = "nkipy"


def _norm(module):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((300, 512), (512,)))
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w
    harness.close(module.nki_rmsnorm_kernel(x, w, 1e-5), want, 1e-4, 1e-4)


def _add(folder, path):
    """The kernel alone: the rest of the file is the package's."""
    with open(os.path.join(folder, path)) as f:
        source = f.read()
    start = source.index("@nki.jit")
    names = {"nki": nki, "nl": nl}
    lines = "\n" * source[:start].count("\n")
    exec(compile(lines + source[start:source.index("#  Create")], path, "exec"), names)
    a, b = (np.random.default_rng(i).standard_normal((128, 512)).astype(np.float32) for i in (0, 1))
    harness.close(names["nki_tensor_add"](a, b), a + b, 0, 0)


def cases(table, folder):
    simple = os.path.join("examples", "playground", "simple_nki_kernel.py")
    table.case(FOLDER, simple, "nki_tensor_add", lambda: _add(folder, simple))
    path = os.path.join("examples", "models", "gpt_oss", "kernels", "nki", "rmsnorm.py")
    table.case(FOLDER, path, "nki_rmsnorm_kernel",
               lambda: _norm(harness.load(os.path.join(folder, path), "nkipy_rmsnorm")))
