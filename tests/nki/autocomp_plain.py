"""ucb-bar/autocomp: solutions that stand alone, against NumPy. They need no torch."""
import math
import os

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np

import harness

FOLDER = "autocomp"


def _data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _transpose(f):
    x = _data(200, 100, 64)
    harness.close(f(x, 1), x.transpose(0, 2, 1), 0, 0)


def _maxpool(f):
    x = _data(300, 500)
    harness.close(f(x, 3), np.lib.stride_tricks.sliding_window_view(x, (3, 3)).max((2, 3)), 0, 0)


def _rope(f):
    x, c, s = _data(128, 1024), _data(64, 1024, seed=1), _data(64, 1024, seed=2)
    want = np.concatenate([x[:64] * c - x[64:] * s, x[64:] * c + x[:64] * s])
    harness.close(f(x, c, s), want, 1e-4, 1e-4)


def _conv1d(f):
    x, w = _data(2, 256, 1, 512), _data(256, 1, 1, 3, seed=1)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)))
    want = sum(padded[..., k:k + 512] * w[:, 0, 0, k][None, :, None, None] for k in range(3))
    harness.close(np.asarray(f(x, w, padding=((0, 0), (1, 1)))).reshape(want.shape), want, 1e-4,
                  1e-4)


def _mlp(f):
    x = _data(1, 1, 512)
    up, gate, down = (_data(512, 512, seed=s) / 20 for s in (1, 2, 3))
    g = x @ gate
    harness.close(f(x, up, gate, down), (g / (1 + np.exp(-g)) * (x @ up)) @ down, 1e-3, 1e-3)


def _attention(batch, together):
    def test(f):
        q, k, v = (_data(batch, h, 1, 64, seed=h) for h in (16, 4, 5))
        v = v[:, :4].copy()
        old_k, old_v = (_data(batch, 4, 512, 64, seed=s) for s in (7, 8))
        mask = np.random.default_rng(9).random((batch, 16 if together else 1, 1, 512)) < 0.5
        got = f(q, k, v, *([(old_k, old_v)] if together else [old_k, old_v]), mask)
        k, v, old_k, old_v = (np.repeat(x, 4, 1) for x in (k, v, old_k, old_v))
        s = np.concatenate([np.where(mask, q @ old_k.transpose(0, 1, 3, 2) / 8, -1e4),
                            q @ k.transpose(0, 1, 3, 2) / 8], -1)
        p = _softmax(s)
        harness.close(got, p[..., :512] @ old_v + p[..., 512:] @ v, 1e-3, 1e-3)
    return test


def _matmul(m, n):
    def test(f):
        a, b = _data(256, m), _data(256, n, seed=1)
        harness.close(f(a, b), a.T @ b, 1e-3, 1e-3)
    return test


def _batched(f):
    a, b = _data(4, 256, 1), _data(256, 1024, seed=1)
    harness.close(f(a, b), a.transpose(0, 2, 1) @ b, 1e-3, 1e-3)


def _causal(f):
    """Sums that are not divided, with the logarithms and the maxima that it takes."""
    q, k, v = (_data(2048, 128, seed=s) for s in range(3))
    s = np.where(np.tri(2048, dtype=bool), q @ k.T, -9984.0)
    p = np.exp(s - s.max(-1, keepdims=True))
    got = f(q, k.T.copy(), v, nl.float32, nl.float32)
    harness.close(got[0], p @ v, 1e-3, 1e-3)
    harness.close(got[1], np.log(p.sum(-1, keepdims=True)) + s.max(-1, keepdims=True), 1e-3, 1e-3)


def _norm(f):
    x, w = _data(300, 512), _data(512, seed=1)
    harness.close(f(x, w), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w, 1e-3, 1e-3)


KERNELS = (
    ("trn-advanced-nki1", "1_transpose_ref", "solution", _transpose),
    ("trn-advanced-nki1", "2_maxpool_ref", "solution", _maxpool),
    ("trn-advanced-nki1", "3_rope_ref", "solution", _rope),
    ("trn-advanced-nki1", "4_conv1d_ref", "solution", _conv1d),
    ("trn-advanced-nki1", "6_csa_2048_ref", "solution", _causal),
    ("trn-e2e", "0_llama_mlp_prefill", "nki_rmsnorm_kernel", _norm),
    ("trn-e2e", "0_llama_mlp_prefill", "nki_matmul_tiled_", _matmul(128, 1024)),
    ("trn-e2e", "2_llama_mlp_decode", "nki_matmul_tiled_", _matmul(1, 1024)),
    ("trn-e2e", "3_llama_mlp_decode_nki", "solution", _mlp),
    ("trn-e2e", "5_llama_attention_nki", "solution", _attention(1, False)),
    ("trn-e2e", "6_llama_logits", "nki_matmul_tiled_reference_", _matmul(1, 1100)),
    ("trn-e2e", "9_llama_attention_b32_nki", "solution", _attention(32, True)),
    ("trn-e2e", "10_llama_mlp_decode_b32", "nki_matmul_tiled_batched_", _batched),
    ("trn-e2e", "12_llama_logits_b32", "nki_matmul_tiled_batched_", _batched),
)


class _Torch:
    """What the texts name beside their kernels, in annotations."""
    Tensor = object


def _named(folder, path, name):
    """The kernel of a file that expects its harness's imports; without torch's."""
    with open(os.path.join(folder, path)) as f:
        source = "".join("\n" if line.startswith(("import torch", "from torch")) else line
                         for line in f)
    names = dict(nki=nki, nl=nl, nisa=nisa, nt=nt, np=np, math=math, torch=_Torch)
    test = os.path.join(folder, path.replace("sols", "harnesses").replace("_ref.py", "_test.py"))
    with open(test) as f:
        head = f.read().split("# SUBSTITUTE HERE")[0]
    if "torch" not in head and "scipy" not in head:
        exec(compile(head, test, "exec"), names)
    exec(compile(source, path, "exec"), names)
    return names[name]


def cases(table, folder):
    for group, file, name, test in KERNELS:
        path = os.path.join("sols", group, file + ".py")
        table.case(FOLDER, path, name,
                   lambda path=path, name=name, test=test: test(_named(folder, path, name)))
