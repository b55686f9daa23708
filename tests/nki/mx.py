"""Block-scaled matmuls (MX) on trn3: the deep dive of aws-neuron-sdk, which nki-samples has too."""
import os

import numpy as np

import harness
import nki.language as nl
import soma
from refs import bf16, data

FOLDER = "nki-samples"
PATH = os.path.join("src", "nki_samples", "tutorials", "mxfp-matmul", "mx_kernels.py")


def _quantized(columns, dtype, seed):
    """128 partitions of `columns` packed groups of 4 values: bits, scales (one for 8 partitions of
    a column) and values."""
    rng = np.random.default_rng(seed)
    scales = rng.integers(124, 130, (16, columns)).astype(np.uint8)
    values = rng.uniform(-2, 2, (128, columns * 4)).astype(np.float32)
    rounded = soma.array(values, dtype)
    power = np.exp2(scales.astype(np.float32) - 127).repeat(8, 0).repeat(4, 1)
    return rounded.bits().reshape(128, -1).view(np.uint32), scales, \
        harness.numbers(rounded) * power


def _product(a, b):
    """Sums over partitions and the four values of a group."""
    a, b = (x.reshape(128, -1, 4) for x in (a, b))
    return np.einsum("pmj,pnj->mn", a, b)


def offline(kernel):
    a, sa, x = _quantized(128, "float8_e5m2", 1)
    b, sb, y = _quantized(512, "float8_e5m2", 2)
    got = kernel(a, sa, b, sb, nl.float8_e5m2_x4)
    harness.close(got, _product(x, y), 5e-2, 5e-1)


def on_device(kernel):
    a, sa, x = _quantized(128, "float8_e5m2", 1)
    _, _, y = _quantized(512, "float8_e5m2", 2)
    got = kernel(a, sa, bf16(y), nl.float8_e5m2_x4, nl.float8_e5m2_x4)
    harness.close(got, _product(x, y), 5e-2, 5e-1)


def strided(use_tensor_copy):
    def test(kernel):
        a, b = (harness.numbers(soma.array(data(512, n, low=-1, seed=n), "float8_e5m2"))
                for n in (128, 512))
        got = kernel(bf16(a), bf16(b), nl.float8_e5m2_x4, use_tensor_copy)
        harness.close(got, a.T @ b, 5e-2, 5e-1)
    return test


def cases(table, folder):
    for name, test, note in (("kernel_offline_quantized_mx_matmul", offline, ""),
                             ("kernel_on_device_quantize_matmul_mx", on_device, ""),
                             ("kernel_copy_strided_quantize_matmul_mx", strided(True), ", copies"),
                             ("kernel_copy_strided_quantize_matmul_mx", strided(False), ", DMA")):
        def run(name=name, test=test):
            test(getattr(harness.load(os.path.join(folder, PATH)), name))
        table.case(FOLDER, PATH, name + note, run, target="trn3")
