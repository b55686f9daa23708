"""aws-neuron/nki-samples before January 2026: its reference kernels, which a later revision
removed. They come from the checkout's history into a folder of their own."""
import importlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

import harness
from refs import bf16

FOLDER = "nki-samples"
REVISION = "c4b806e^"
BASE = os.path.join("src", "nki_samples", "reference")


def _data(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _scores(q, k, causal=False, window=-1, scale=1.0):
    """Scores of (heads, d, sequence) arrays; those that are masked are very small."""
    x = np.einsum("hdq,hdk->hqk", q, k).astype(np.float64) * scale
    i, j = np.arange(x.shape[1])[:, None], np.arange(x.shape[2])[None, :]
    hidden = (causal or window > 0) & (j > i) | (window > 0) & (j < i - window + 1)
    return np.where(hidden, -1e30, x)


def _flash(kernel, module, causal, window=-1, kv_heads=2, training=True):
    def run():
        q = _data(1, 2, 64, 1024, seed=1)
        k, v = _data(1, kv_heads, 64, 1024, seed=2), _data(1, kv_heads, 1024, 64, seed=3)
        config = module().FlashConfig(seq_tile_size=512, training=training)
        got = kernel()[1, kv_heads](q, k, v, None, use_causal_mask=causal, sliding_window=window,
                                    mixed_precision=True, config=config)
        o = got[0] if isinstance(got, tuple) else got
        few = 2 // kv_heads
        x = _scores(q[0], np.repeat(k[0], few, 0), causal, window, 0.125)
        want = np.einsum("hqk,hkd->hqd", _softmax(x), np.repeat(v[0], few, 0))
        harness.close(o[0], want, 1e-2, 1e-2)
        if training:
            lse = np.log(np.exp(x).sum(-1)).reshape(2, 8, 128).transpose(0, 2, 1)
            harness.close(np.abs(got[1][0]), np.abs(lse), 1e-2, 1e-2)
    return run


def _flash_bwd(kernel, causal):
    def run():
        q, k, v, dy = (_data(1, 1, 64, 512, seed=s) for s in range(4))
        x = _scores(q[0], k[0], causal, -1, 0.125)
        p = _softmax(x)
        o = np.einsum("hqk,hdk->hdq", p, v[0])
        lse = np.log(np.exp(x).sum(-1)).reshape(1, 1, 4, 128).transpose(0, 1, 3, 2)
        got = kernel()[1, 1](q, k, v, o[None].astype(np.float32), dy, lse.astype(np.float32), None,
                             use_causal_mask=causal, mixed_precision=True)
        dv = np.einsum("hqk,hdq->hdk", p, dy[0])
        dp = np.einsum("hdq,hdk->hqk", dy[0], v[0])
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * 0.125
        want = np.einsum("hqk,hdk->hdq", ds, k[0]), np.einsum("hqk,hdq->hdk", ds, q[0]), dv
        for g, w in zip(got, want):
            harness.close(g[0], w, 1e-2, 1e-2)
    return run


def _attention(kernel, causal, allocated):
    def run():
        q, k, v = (_data(1, 128, 1024, seed=s, low=0.0) for s in range(3))
        if allocated:
            given = q, k, np.ascontiguousarray(v.transpose(0, 2, 1))
        else:
            given = q, *(np.ascontiguousarray(x.transpose(0, 2, 1)) for x in (k, v))
        x = _scores(q, k, causal, -1, 0.125)
        want = np.einsum("hqk,hdk->hqd", _softmax(x), v)
        got = kernel()[1](*given, use_causal_mask=causal)
        harness.close(got, want.transpose(0, 2, 1) if allocated else want, 1e-2, 1e-2)
    return run


def _rms_qkv(kernel):
    def run():
        x, w = bf16(_data(1, 512, 512, seed=1, low=0.0)), bf16(_data(512, 384, seed=2, low=0.0))
        a, b = harness.numbers(x).astype(np.float64), harness.numbers(w)
        want = a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-6) @ b
        harness.close(harness.numbers(kernel()(x, w)), want, 2e-2, 2e-2)
    return run


def _scatter(kernel):
    def run():
        x, s = _data(8, 64, 16, 16, seed=1, low=0.0), _data(8, 64, 8, 8, seed=2, low=0.0)
        padded, want = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), np.zeros((8, 64, 18, 18))
        n, c = np.ogrid[0:8, 0:64]
        for h in range(8):
            for w in range(8):
                at = padded[:, :, 2 * h:2 * h + 3, 2 * w:2 * w + 3].reshape(8, 64, 9).argmax(-1)
                want[n, c, 2 * h + at // 3, 2 * w + at % 3] += s[:, :, h, w]
        harness.close(kernel()(x, s), want[:, :, 1:-1, 1:-1], 1e-2, 1e-4)
    return run


def _resize(kernel):
    def run():
        x = _data(10, 30, 20, 64, seed=1)
        return harness.refused(lambda: kernel()(x, (10, 59, 38, 64)), "index vector of .gather is",
                               "vision.py:")
    return run


def _pool(kernel):
    def run():
        x = _data(2, 64, 13, 10, seed=1)
        want = np.zeros((2, 64, 5, 3))
        for i in range(5):
            for j in range(3):
                want[:, :, i, j] = x[:, :, i * 13 // 5:-(-(i + 1) * 13 // 5),
                                     j * 10 // 3:-(-(j + 1) * 10 // 3)].mean((2, 3))
        harness.close(kernel()(x, (5, 3)), want, 1e-2, 1e-4)
    return run


def _double_row(kernel):
    def run():
        import neuronxcc.nki.language as nl
        m, k, n = 256, 512, 512
        a, b = _data(m, k, seed=1, low=0.0), _data(k, n, seed=2, low=0.0)
        scale = np.abs(b).max(0, keepdims=True) / 240.0
        rows = nl.static_cast(b / scale, nl.float8_e4m3)
        bits = rows.bits().reshape(k // 256, 2, 128, n // 512, 512).transpose(0, 2, 3, 1, 4)
        import soma
        packed = soma.from_bits(np.ascontiguousarray(bits).reshape(k // 2, 2 * n), "float8_e4m3")
        got = kernel()(bf16(a), packed, np.broadcast_to(scale, (128, n)).copy(), 1, 1, 2)
        harness.close(harness.numbers(got), a @ b, 5e-2, 5e-2)
    return run


def _extract(folder):
    """The package at that revision, in a new folder; None if the checkout's history lacks it."""
    found = subprocess.run(["git", "-C", folder, "archive", REVISION, BASE], capture_output=True)
    if found.returncode:
        return None
    into = tempfile.TemporaryDirectory()
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as tar:
        tar.extractall(into.name)
    return into


def cases(table, folder):
    source = _extract(folder)
    if source is None:
        print("%s: no revision %s in its history, not run" % (folder, REVISION))
        return
    root = os.path.join(source.name, "src")
    with open(os.path.join(root, "nki_samples", "__init__.py"), "w"):
        pass
    kept = {n: sys.modules.pop(n) for n in list(sys.modules) if n.split(".")[0] == "nki_samples"}
    sys.path.insert(0, root)

    def case(file, name, test, *of, **options):
        def module():
            return importlib.import_module("nki_samples.reference." + file)

        def kernel():
            return getattr(module(), name)
        given = (kernel, module) if test is _flash else (kernel,)
        table.case(FOLDER + " " + REVISION, os.path.join(BASE, file + ".py"), name,
                   test(*given, *of), **options)
    for causal, window, heads, training in ((True, -1, 2, True), (False, -1, 2, True),
                                            (True, 256, 2, True), (True, -1, 1, False)):
        case("attention", "flash_fwd", _flash, causal, window, heads, training)
    for causal in (False, True):
        case("attention", "flash_attn_bwd", _flash_bwd, causal)
        case("attention", "fused_self_attn_for_SD_small_head_size", _attention, causal, False)
    name = "allocated_fused_self_attn_for_SD_small_head_size"
    case("allocated_attention", name, _attention, False, True)
    case("allocated_fused_linear", "allocated_fused_rms_norm_qkv", _rms_qkv)
    case("double_row_matmul", "quantized_double_row_matmul", _double_row)
    case("vision", "select_and_scatter_kernel", _scatter)
    case("vision", "resize_nearest_fixed_dma_kernel", _resize)
    case("vision", "adaptive_avg_pool2d_kernel", _pool)
    sys.path.remove(root)
    for n in [n for n in sys.modules if n.split(".")[0] == "nki_samples"]:
        del sys.modules[n]
    sys.modules.update(kept)
    source.cleanup()
