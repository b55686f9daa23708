"""The larger kernels of nki-library: projections, attention, routers, mlp."""
import importlib
import sys

import numpy as np

import harness
import nki
import nki.language as nl
from refs import bf16, data, norm, silu, softmax


def _numbers(*arrays):
    return [harness.numbers(a) for a in arrays]


def _types():
    return importlib.import_module("nkilib.core.utils.common_types")


def attention(q, k, v, scale, causal):
    """(batch, time, d) arrays; probabilities and the result."""
    s = np.einsum("bqd,bkd->bqk", q, k) * scale
    if causal:
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    p = softmax(s)
    return p, p @ v


def attention_cte(kernel):
    q, k, v = (bf16(data(1, 512, 128, low=-1, seed=i)) for i in range(3))
    kt = bf16(np.ascontiguousarray(harness.numbers(k).transpose(0, 2, 1)))
    got = kernel(q, kt, v, scale=0.1)
    harness.close(got, attention(*_numbers(q, k, v), 0.1, True)[1], 2e-2, 2e-2)


def attention_bwd(kernel):
    q, k, v, dy = (data(1, 512, 128, low=-1, seed=i) for i in range(4))
    scale = 1 / np.sqrt(128)
    p, o = attention(q, k, v, scale, False)
    lse = np.log(np.exp(np.einsum("bqd,bkd->bqk", q, k) * scale).sum(-1))
    ds = p * (np.einsum("bqd,bkd->bqk", dy, v) - (o * dy).sum(-1, keepdims=True)) * scale
    want = (ds @ k, ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ dy)

    def given(x):
        return np.ascontiguousarray(x.astype(np.float32).transpose(0, 2, 1)[:, None])
    rows = np.ascontiguousarray(lse.astype(np.float32).reshape(1, 1, 4, 128).swapaxes(2, 3))
    got = kernel(given(q), given(k), given(v), given(o), given(dy), rows)
    for g, w in zip(got, want):
        harness.close(g, given(w), 2e-2, 2e-2)


def _router(kernel, **options):
    types = _types()
    tokens, experts, k = 128, 64, 4
    x, w, bias = data(256, tokens, low=-1), data(256, experts, low=-1, seed=1), data(1, experts)
    zeros = [np.zeros((tokens, n), t) for n, t in
             ((experts, np.float32), (experts, np.float32), (k, np.uint32))]
    outputs = kernel(x, w, bias, *zeros, types.RouterActFnType.SOFTMAX, k, 0, 0, **options)
    logits = x.T @ w + bias
    best = np.argsort(-logits, -1)[:, :k]
    want = softmax(logits)
    if not options.get("router_pre_norm", True):  # the softmax of the best, at their places
        want = np.zeros_like(logits)
        np.put_along_axis(want, best, softmax(np.take_along_axis(logits, best, -1)), -1)
    for got, reference in zip(outputs, (logits, best, want)):
        harness.close(got, reference, 1e-3, 1e-3)


def router_topk(kernel):
    _router(nki.jit(kernel))


def router_topk_shared(kernel):
    """Each core has half of the tokens; without the option both have all of them."""
    _router(nki.jit(kernel), shard_on_tokens=True)


def router_topk_after(kernel):
    _router(nki.jit(kernel), router_pre_norm=False)


def output_projection_cte(kernel):
    x, w, bias = data(1, 2, 128, 256, low=-1), data(256, 512, low=-1, seed=1), data(1, 512)
    x, w, bias = map(bf16, (x, w, bias))
    a, b, c = _numbers(x, w, bias)
    want = np.einsum("bnds,ndh->bsh", a, b.reshape(2, 128, 512)) + c
    harness.close(kernel(x, w, bias), want, 2e-2, 5e-2)


def output_projection_tkg(kernel):
    x, w, bias = data(128, 2, 4, 1, low=-1), data(512, 512, low=-1, seed=1), data(1, 512)
    want = np.einsum("dbns,ndh->bsh", x, w.reshape(4, 128, 512)).reshape(2, 512) + bias
    harness.close(kernel(x, w, bias), want, 1e-3, 1e-3)


def qkv_cte(kernel):
    types = _types()
    x, w = bf16(data(1, 256, 512, low=-1)), bf16(data(512, 384, low=-1, seed=1))
    gamma = bf16(data(1, 512, seed=2))
    got = nki.jit(kernel)(x, w, fused_norm_type=types.NormType.RMS_NORM,
                          gamma_norm_weights=gamma, d_head=64, num_q_heads=4, num_kv_heads=1)
    a, b, g = _numbers(x, w, gamma)
    harness.close(got, norm(a, g) @ b, 2e-2, 2e-1)


def qkv_tkg(kernel):
    types = _types()
    x, w, gamma = data(4, 1, 512, low=-1), data(512, 384, low=-1, seed=1), data(1, 512, seed=2)
    got = nki.jit(kernel)(x, w, gamma, norm_type=types.NormType.RMS_NORM)
    harness.close(got, norm(x, gamma) @ w, 1e-3, 1e-2)


def _mlp(kernel, *shapes, manager=None):
    parameters = importlib.import_module("nkilib.core.mlp.mlp_parameters")
    tokens, h, i = shapes
    x, gate, up, down = (data(1, tokens, h, low=-1), data(h, i, low=-.1, high=.1, seed=1),
                         data(h, i, low=-.1, high=.1, seed=2),
                         data(i, h, low=-.1, high=.1, seed=3))
    x, gate, up, down = map(bf16, (x, gate, up, down))

    @nki.jit
    def run(x, gate, up, down):
        given = parameters.MLPParameters(x, gate, up, down)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        kernel(given, out, None, *([manager()] if manager else []))
        return out
    a, g, u, d = _numbers(x, gate, up, down)
    harness.close(run(x, gate, up, down), silu(a @ g) * (a @ u) @ d, 2e-2, 2e-2)


def mlp_cte(kernel):
    _mlp(kernel, 256, 512, 512)


def mlp_tkg(kernel):
    """Given a manager of SBUF: without one the function names a class that it does not import."""
    utils = importlib.import_module("nkilib.core.utils.allocator")
    _mlp(kernel, 8, 512, 512,
         manager=lambda: utils.BufferManager(0, 200 * 1024, use_auto_alloc=False))


def rotational_topk(kernel, num_programs=1):
    utils = sys.modules["nkilib.core.topk.rotational_topk_utils"]
    x = np.random.default_rng(0).permutation(4 * 4096).astype(np.float32).reshape(4, 4096)
    kernels = sys.modules[kernel.function.__module__]
    basic = utils.create_topk_config(x.shape, nl.float32, 16, num_programs=num_programs)
    config = kernels.prepare_rotational_constants(
        utils.create_rotational_topk_config(x.shape, basic))
    values, indices = kernel(x, config)
    kernels.cleanup_rotational_constants()
    best = np.argsort(-x, -1)[:, :16]
    harness.close(np.sort(indices), np.sort(best), 0, 0)
    harness.close(np.sort(values), np.sort(np.take_along_axis(x, best, -1)), 0, 0)


def indexed_flatten(kernel):
    """Its cores exchange their parts, so that on one it is refused."""
    x = data(4, 1024, high=100).astype(np.int32)
    offsets = np.array([0, 16, 40, 56], np.int32)
    return harness.refused(lambda: kernel(x, 64, 128 * 64, offsets), "indexed_flatten.py:",
                           "sendrecv needs the two cores of LNC=2")


KERNELS = (
    ("core", "attention/attention_cte.py", "attention_cte", attention_cte),
    ("core", "attention/attention_bwd.py", "attention_bwd", attention_bwd),
    ("core", "router_topk/router_topk.py", "router_topk", router_topk),
    ("core", "router_topk/router_topk.py", "router_topk", router_topk_after),
    ("core", "output_projection/output_projection_cte/output_projection_cte.py",
     "output_projection_cte", output_projection_cte),
    ("core", "output_projection/output_projection_tkg.py", "output_projection_tkg",
     output_projection_tkg),
    ("core", "qkv/qkv_cte.py", "qkv_cte", qkv_cte),
    ("core", "qkv/qkv_tkg.py", "qkv_tkg", qkv_tkg),
    ("core", "mlp/mlp_cte/mlp_cte.py", "mlp_cte", mlp_cte),
    ("core", "mlp/mlp_tkg/mlp_tkg.py", "mlp_tkg", mlp_tkg),
    ("core", "topk/rotational_topk.py", "rotational_topk", rotational_topk),
    ("core", "subkernels/indexed_flatten.py", "indexed_flatten", indexed_flatten),
)
