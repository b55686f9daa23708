"""Kernels of nki-library on the two cores of a logical core (LNC=2): what their cores share they
exchange by sendrecv, or by HBM with a core_barrier. Most have the references of one core."""
import importlib

import numpy as np

import harness
import library_more
import library_tkg
import nki
import nki.isa as nisa
import nki.language as nl
from refs import bf16, data, norm, silu

CORE, TRIAL = "core", "experimental"


def _normed(kernel, x, *more):
    """A kernel around a norm whose result, (128, tokens, H / 128), each core has whole in SBUF: core
    i has the i-th half of H in the i-th half of the last dimension. Each stores half of the
    tokens."""
    @nki.jit
    def run(x, gamma, *beta):
        tokens, h = x.shape[0] * x.shape[1], x.shape[2]
        shape, half, core = (128, tokens, h // 128), tokens // 2, nl.program_id(0)
        y = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        kernel(x, gamma, y, *beta)
        out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ds(core * half, half)
        nisa.dma_copy(dst=out[:, mine, :], src=y[:, mine, :])
        return out
    tokens, h = x.shape[0] * x.shape[1], x.shape[2]
    halves = run(x, *more).reshape(128, tokens, 2, h // 256)
    return halves.transpose(1, 2, 0, 3).reshape(tokens, h)


def rmsnorm_tkg(kernel):
    x, gamma = data(4, 8, 512, low=-1), data(1, 512, seed=1)
    harness.close(_normed(kernel, x, gamma), norm(x, gamma).reshape(32, 512), 1e-3, 1e-3)


def layernorm_tkg(kernel):
    x, gamma, beta = data(4, 8, 512, low=-1), data(1, 512, seed=1), data(1, 512, seed=2)
    want = norm(x - x.mean(-1, keepdims=True), gamma) + beta
    harness.close(_normed(kernel, x, gamma, beta), want.reshape(32, 512), 1e-3, 1e-3)


def rope_hf(kernel):
    import library
    library.rope_hf(kernel, 256)


def indexed_flatten(kernel):
    """Row i of x goes to offsets[i] in units of 64; what no row covers keeps the padding."""
    x = data(4, 1024, high=100).astype(np.int32)
    offsets = np.array([0, 16, 40, 56], np.int32)
    want = np.full(128 * 64, -1)
    for row, at in zip(x, offsets):
        want[at * 64:at * 64 + 1024] = row
    harness.close(kernel(x, 64, 128 * 64, offsets), want, 0, 0)


def rotational_topk(kernel):
    library_more.rotational_topk(kernel, num_programs=2)


def blockwise_moe(kernel):
    """Two experts; each token is in a block of both, so that the second block adds to what both
    cores have written of the first."""
    types = importlib.import_module("nkilib.core.utils.common_types")
    tokens, h, inner, experts, block = 256, 512, 512, 2, 256
    x = bf16(np.concatenate((data(tokens, h, low=-1), np.zeros((1, h), np.float32))))
    gates = bf16(data(experts, h, 2, inner, low=-.1, high=.1, seed=1))
    down = bf16(data(experts, inner, h, low=-.1, high=.1, seed=2))
    share = data(tokens + 1, experts, seed=3)
    order = np.random.default_rng(4).permutation(tokens)
    places = np.concatenate((np.arange(tokens), order)).astype(np.int32)
    got = nki.jit(kernel)(
        x, bf16(share.reshape(-1, 1)), gates, down, block, places,
        np.array([[1], [0]], np.int32),
        expert_affinities_scaling_mode=types.ExpertAffinityScaleMode.POST_SCALE)
    a, g, d, s = (harness.numbers(t) for t in (x, gates, down, bf16(share)))
    want = sum(s[:, [e]] * (silu(a @ g[e, :, 0]) * (a @ g[e, :, 1]) @ d[e]) for e in range(experts))
    harness.close(harness.numbers(got)[:tokens], want[:tokens], 2e-2, 3e-2)


KERNELS = (
    (CORE, "subkernels/rmsnorm_tkg.py", "rmsnorm_tkg", rmsnorm_tkg),
    (CORE, "subkernels/layernorm_tkg.py", "layernorm_tkg", layernorm_tkg),
    (CORE, "embeddings/rope_hf.py", "rope_hf", rope_hf),
    (CORE, "subkernels/indexed_flatten.py", "indexed_flatten", indexed_flatten),
    (CORE, "topk/rotational_topk.py", "rotational_topk", rotational_topk),
    (CORE, "attention/attention_cte.py", "attention_cte", library_more.attention_cte),
    (CORE, "attention/attention_bwd.py", "attention_bwd", library_more.attention_bwd),
    (CORE, "attention/attention_tkg.py", "attention_tkg", library_tkg.attention_tkg()),
    (CORE, "router_topk/router_topk.py", "router_topk", library_more.router_topk_shared),
    (CORE, "output_projection/output_projection_cte/output_projection_cte.py",
     "output_projection_cte", library_more.output_projection_cte),
    (CORE, "output_projection/output_projection_tkg.py", "output_projection_tkg",
     library_more.output_projection_tkg),
    (CORE, "qkv/qkv_cte.py", "qkv_cte", library_more.qkv_cte),
    (CORE, "qkv/qkv_tkg.py", "qkv_tkg", library_more.qkv_tkg),
    (CORE, "mlp/mlp_cte/mlp_cte.py", "mlp_cte", library_more.mlp_cte),
    (CORE, "mlp/mlp_tkg/mlp_tkg.py", "mlp_tkg", library_more.mlp_tkg),
    (CORE, "moe/moe_tkg/moe_tkg.py", "moe_tkg", library_tkg.moe_tkg(True)),
    (CORE, "moe_block/moe_block_tkg.py", "moe_block_tkg", library_tkg.moe_block(False),
     ("uninit", "tile expert_affinities", "each core has routed half of the tokens, and copies the "
      "shares of all")),
    (CORE, "moe_block/moe_block_tkg.py", "moe_block_tkg", library_tkg.moe_block(True)),
    (CORE, "moe/moe_cte/bwmm_shard_on_I.py", "blockwise_mm_baseline_shard_intermediate",
     blockwise_moe, ("race", "of tensor output",
                     "both cores zero all of it without a barrier after that, and each loads rows "
                     "that the other one stores")),
)
