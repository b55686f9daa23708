"""ucb-bar/autocomp: its Trainium kernels, by the harness that it has for each. A harness compares the
kernel that is to be made faster with a solution, and calls both."""
import contextlib
import importlib.util
import os
import sys
import types

import numpy as np

import harness

FOLDER = "autocomp"
KERNELS = (
    ("trn-tutorial-nki1", "0_rmsnorm"), ("trn-tutorial-nki1", "3_mamba"),
    ("trn-tutorial-nki2", "0_rmsnorm"), ("trn-tutorial-nki2", "2_gemm"),
    ("trn-tutorial-nki2", "3_mamba"), ("trn-tutorial-nki2", "5_sdattention"),
    ("trn-advanced-nki2", "0_cumsum"), ("trn-advanced-nki2", "2_maxpool"),
    ("trn-advanced-nki2", "3_rope"), ("trn-internal", "4_trimul"), ("trn-internal", "5_fft256"),
    ("trn-internal", "6_mamba_scan"), ("trn-internal", "8_deltanet_recurrent"),
    ("trn-internal", "10_openfold3_trimul"), ("trn-internal", "12_flashvsr_fp32attn"),
    ("trn-internal", "15_gemm"),
)
# Refused, for what their text must name.
REFUSED = (
    ("trn-advanced-nki2", "6_csa_2048", "transposing bfloat16 gives elements of 2 bytes"),
    ("trn-advanced-nki2", "8_mha", "transposing bfloat16 gives elements of 2 bytes"),
)


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@contextlib.contextmanager
def _around():
    """The modules that harnesses import for a device of torch, which is the host here."""
    made = {name: types.ModuleType(name) for name in (
        "torch_xla", "torch_xla.core", "torch_xla.core.xla_model", "scipy", "scipy.special")}
    made["torch_xla.core"].xla_model = made["torch_xla.core.xla_model"]
    made["torch_xla.core.xla_model"].xla_device = lambda: "cpu"
    made["scipy.special"].softmax = _softmax
    kept = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _harness(folder, group, name):
    spec = importlib.util.find_spec("torch")
    if spec is None or "standins" in (spec.origin or "standins"):
        raise harness.Skip("its harness needs torch")
    path = os.path.join(folder, "harnesses", group, name + "_test.py")
    with open(path) as f, open(os.path.join(folder, "sols", group, name + "_ref.py")) as g:
        source = f.read().replace("# SUBSTITUTE HERE", g.read())
    names = {"__name__": name}
    with _around():
        exec(compile(source, path, "exec"), names)
        np.random.seed(1)
        if not names["test_nki"](names.get("ref", names["solution"]), names["solution"]):
            raise AssertionError("its harness finds that the two differ")


def cases(table, folder):
    for group, name, *words in KERNELS + REFUSED:
        def run(group=group, name=name, words=words):
            if words:
                return harness.refused(lambda: _harness(folder, group, name), *words)
            return _harness(folder, group, name)
        table.case(FOLDER, os.path.join("harnesses", group, name + "_test.py"), "test_nki", run)
