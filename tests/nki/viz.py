"""The examples of triton-viz in both dialects; each file compares in its own _run_demo()."""
import glob
import os

import numpy as np

import harness

FOLDER = "triton-viz"


def _demo(module, path):
    def run():
        np.random.seed(0)
        module._run_demo()
    return run


def _rope(module):
    """The demo of examples/nki/rope.py does not compare, so it is done here with its reference."""
    def run():
        import nki
        import torch
        np.random.seed(0)
        q, k = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
        cos, sin = module.generate_pos_embedding(8, torch.arange(4))
        got = np.zeros((2, 2, 4, 8), np.float32)
        nki.jit(module.nki_rope_kernel)[(2,)](
            *[np.array(x, np.float32) for x in (q, k, cos, sin)], got[0], got[1])
        want = module.torch_rope_kernel(q, k, cos, sin)
        harness.close(got, np.stack(want), 1e-3, 1e-3)
    return run


def _transposed(module):
    def run():
        module.TRANSPOSED = True
        try:
            module._run_demo()
        finally:
            module.TRANSPOSED = False
    return run


def cases(table, folder):
    for path in sorted(glob.glob(os.path.join(folder, "examples", "nki*", "*.py"))):
        file = os.path.relpath(path, folder)
        if file.endswith("__init__.py") or not table.wants(FOLDER, file):
            continue
        module = harness.load(path)
        if file == os.path.join("examples", "nki", "rope.py"):
            table.case(FOLDER, file, "rope", _rope(module))
            continue
        table.case(FOLDER, file, "_run_demo", _demo(module, path), also=harness.ALSO)
        if hasattr(module, "TRANSPOSED"):
            table.case(FOLDER, file, "_run_demo, transposed", _transposed(module),
                       also=harness.ALSO)
