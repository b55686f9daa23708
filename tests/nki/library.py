"""aws-neuron/nki-library: kernel functions, called directly with small shapes, on one core and then
those of library_pair.py on the two of a logical core (LNC=2).
References are ours; tolerances are those of the library's tests (2e-2 for bfloat16, 1e-3 for
float32 unless a test says other)."""
import importlib
import os
import sys

import numpy as np

import harness
import library_more
import library_pair
import library_tkg
import nki
import nki.isa as nisa
import nki.language as nl
from refs import bf16, data, erf, interleave, norm, softmax  # noqa: F401

FOLDER = "nki-library"
CORE, TRIAL = "core", "experimental"


def cumsum(kernel):
    x = data(130, 512, low=-1)
    harness.close(kernel(x), np.cumsum(x, -1), 1e-3, 1e-2)
    y = data(4, 3, 300, low=-1)
    harness.close(kernel(y), np.cumsum(y, -1), 1e-3, 1e-2)


def rotated(x, cos, sin):
    """x (d, batch, heads, time), halves of d rotated by cos, sin (d / 2, batch, time)."""
    a, b = np.split(x, 2)
    c, s = cos[:, :, None], sin[:, :, None]
    return np.concatenate((a * c - b * s, b * c + a * s))


def rope(kernel):
    angle = data(64, 2, 128, high=3)
    x, cos, sin = data(128, 2, 4, 128, low=-1, seed=1), np.cos(angle), np.sin(angle)
    want = rotated(x, cos, sin)
    harness.close(kernel(x, cos, sin), want, 1e-3, 1e-3)
    got = kernel(interleave(x), cos, sin, contiguous_layout=False)
    harness.close(got, interleave(want), 1e-3, 1e-3)


def rope_hf(kernel, time=128):
    q, k = data(1, 4, time, 64, seed=1), data(1, 2, time, 64, seed=2)
    angle = np.tile(data(time, 32, high=3), (1, 2))
    cos, sin = np.cos(angle), np.sin(angle)

    def want(x):
        a, b = np.split(x, 2, -1)
        return x * cos + np.concatenate((-b, a), -1) * sin
    got = kernel(q, k, np.zeros_like(q), np.zeros_like(k), cos, sin)
    for g, x in zip(got, (q, k)):
        harness.close(g, want(x), 1e-3, 1e-3)


def cascaded_max(kernel):
    x = data(1, 1, 4096, low=-10, high=10)
    values, indices = kernel(x)
    harness.close(values, x.max(-1, keepdims=True), 0, 0)
    harness.close(indices, x.argmax(-1)[..., None], 0, 0)


def _normed(kernel, *given, **options):
    """A kernel of this file around a norm that leaves its result (128, tokens, H / 128) in SBUF."""
    @nki.jit
    def run(x, gamma, *beta):
        tokens, h = x.shape[0] * x.shape[1], x.shape[2]
        shape = (128, tokens, h // 128)
        y = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        kernel(x, gamma, y, *beta, **options)
        out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=y)
        return out
    return run(*given)


def rmsnorm_tkg(kernel):
    x, gamma = data(2, 4, 512, low=-1), data(1, 512, seed=1)
    want = norm(x, gamma).reshape(8, 128, 4).transpose(1, 0, 2)
    harness.close(_normed(kernel, x, gamma), want, 1e-3, 1e-3)


def layernorm_tkg(kernel):
    x, gamma, beta = data(2, 4, 512, low=-1), data(1, 512, seed=1), data(1, 512, seed=2)
    want = norm(x - x.mean(-1, keepdims=True), gamma) + beta
    harness.close(_normed(kernel, x, gamma, beta), want.reshape(8, 128, 4).transpose(1, 0, 2),
                  1e-3, 1e-3)


def rmsnorm_quant(kernel):
    module = sys.modules[kernel.function.__module__]
    types = importlib.import_module("nkilib.core.utils.common_types")
    x, gamma = data(1, 128, 512, low=-1), data(512, seed=1)
    kinds = module.RmsNormQuantKernelArgs(lower_bound=0.0, norm_type=types.NormType.RMS_NORM)
    got = kernel(bf16(x), bf16(gamma), kinds)
    bits = np.asarray(got.bits() if hasattr(got, "bits") else got.view(np.uint8))
    scale = np.ascontiguousarray(bits[..., 512:]).view(np.float32)
    values = harness.numbers(nl_array(bits[..., :512], got)) * scale
    want = norm(harness.numbers(bf16(x)), harness.numbers(bf16(gamma)))
    harness.close(values, want, 7e-2, 5e-2)


def nl_array(bits, like):
    import soma
    return soma.array(bits, like.soma_dtype)


def find_nonzero_indices(kernel):
    x = (data(256, 16, low=-1) * (data(256, 16, seed=1) > 0.6)).astype(np.float32)
    indices, counts = kernel(x)
    want = np.full((16, 256), -1)
    for c in range(16):
        rows = np.flatnonzero(x[:, c])
        want[c, :len(rows)] = rows
    harness.close(counts, (x != 0).sum(0), 0, 0)
    harness.close(indices, want, 0, 0)


def find_with_count(kernel):
    x = (data(1, 512, low=-1) * (data(1, 512, seed=1) > 0.6)).astype(np.float32)
    rows = np.flatnonzero(x)
    want = np.full((1, 513), -1)
    want[0, :len(rows)], want[0, 512] = rows, len(rows)
    harness.close(kernel(x), want, 0, 0)


def depthwise_conv1d(kernel):
    x, w = data(2, 128, 1, 200, low=-1), data(128, 1, 1, 4, seed=1)
    got = kernel(x, w, feature_group_count=128)
    want = sum(w[:, 0, 0, s][:, None] * x[:, :, 0, s:197 + s] for s in range(4))[:, :, None]
    harness.close(got, want, 1e-3, 1e-3)


def conv1d(kernel):
    x, w, bias = data(2, 64, 200, low=-1), data(3, 64, 96, seed=1), data(96, seed=2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    want = sum(np.einsum("bil,io->bol", padded[:, :, t:t + 200], w[t]) for t in range(3))
    harness.close(kernel(x, w, bias, padding=(1, 1)), want + bias[:, None], 1e-3, 1e-3)


def _dynamic_add(tiles):
    def test(kernel):
        a, b = bf16(data(512, 512)), bf16(data(512, 512, seed=1))
        got = kernel(a, b, np.array([[tiles]], np.int32))
        want = harness.numbers(a) + harness.numbers(b)
        harness.close(harness.numbers(got)[:tiles * 128], want[:tiles * 128], 1e-2, 1e-2)
    return test


def _entropy(kernel):
    logits = data(64, 4096, low=-3, high=3)
    targets = np.random.default_rng(1).integers(0, 4096, 64).astype(np.int32)
    lse = np.log(np.exp(logits).sum(-1))
    return logits, targets, lse


def cross_entropy_forward(kernel):
    logits, targets, lse = _entropy(kernel)
    loss, state = kernel(logits, targets, chunk_size=2048, dtype=nl.float32)
    harness.close(state, lse, 1e-3, 1e-3)
    harness.close(loss, lse - logits[np.arange(64), targets], 1e-3, 1e-3)


def cross_entropy_backward(kernel):
    logits, targets, lse = _entropy(kernel)
    got = kernel(logits, targets, lse.astype(np.float32), chunk_size=2048, dtype=nl.float32,
                 inplace=False)
    want = softmax(logits)
    want[np.arange(64), targets] -= 1
    harness.close(got, want / 64, 1e-3, 1e-5)


KERNELS = (
    (CORE, "cumsum/cumsum.py", "cumsum", cumsum),
    (CORE, "embeddings/rope.py", "RoPE", rope),
    (CORE, "embeddings/rope_hf.py", "rope_hf", rope_hf),
    (CORE, "subkernels/rmsnorm_tkg.py", "rmsnorm_tkg", rmsnorm_tkg),
    (CORE, "subkernels/layernorm_tkg.py", "layernorm_tkg", layernorm_tkg),
    (CORE, "rmsnorm/rmsnorm_quant.py", "rmsnorm_quant_kernel", rmsnorm_quant),
    (CORE, "max/cascaded_max.py", "cascaded_max", cascaded_max),
    (CORE, "subkernels/find_nonzero_indices.py", "find_nonzero_indices", find_nonzero_indices),
    (TRIAL, "benchmark/find_nonzero_indices_with_count.py", "find_nonzero_indices_with_count",
     find_with_count, ("uninit", "partition 16", "it loads partition 0 alone; the instruction "
                       "reads each sixteenth of the 128 that it is given")),
    (TRIAL, "conv/depthwise_conv1d.py", "depthwise_conv1d_implicit_gemm", depthwise_conv1d),
    (TRIAL, "conv/conv1d.py", "conv1d", conv1d),
    (TRIAL, "dynamic_shapes/dynamic_elementwise_add.py", "dynamic_elementwise_add",
     _dynamic_add(4)),
    (TRIAL, "dynamic_shapes/dynamic_elementwise_add.py", "dynamic_elementwise_add",
     _dynamic_add(2), ("uninit", "reads bytes 0..524287 of tensor result",
                       "its last copy reads all rows of the result, of which two tiles of four are "
                       "written")),
    (TRIAL, "loss/cross_entropy.py", "cross_entropy_forward", cross_entropy_forward),
    (TRIAL, "loss/cross_entropy.py", "cross_entropy_backward", cross_entropy_backward),
) + library_more.KERNELS + library_tkg.KERNELS


def cases(table, folder):
    source = os.path.join(folder, "src", "nkilib_src")
    sys.path.insert(0, source)
    for part, file, name, test, *known in KERNELS:
        path = os.path.join("src", "nkilib_src", "nkilib", part, file)
        dotted = "nkilib.%s.%s" % (part, file[:-3].replace("/", "."))

        def run(dotted=dotted, name=name, test=test):
            return test(getattr(importlib.import_module(dotted), name))
        table.case(FOLDER, path, name, run, also=harness.ALSO, known=known[0] if known else None)
    for part, file, name, test, *known in library_pair.KERNELS:
        dotted = "nkilib.%s.%s" % (part, file[:-3].replace("/", "."))

        def run(dotted=dotted, name=name, test=test):
            with harness.on_two_cores():
                return test(getattr(importlib.import_module(dotted), name))
        path = os.path.join("src", "nkilib_src", "nkilib", part, file)
        table.case(FOLDER, path, name + "[2]", run, also=("trn3",),
                   known=known[0] if known else None)
    sys.path.remove(source)
