"""The kernels of nki-library for generating a token: attention, mixtures of experts."""
import importlib

import numpy as np

import harness
import nki
import nki.isa as nisa
import nki.language as nl
import soma
from refs import bf16, data, norm, silu, softmax


def _turned(x):
    """(batch, head, step, d) as (d, all the others)."""
    return soma.array(np.ascontiguousarray(
        harness.numbers(x).transpose(3, 0, 1, 2).reshape(x.shape[3], -1)), "bfloat16")


def attention_tkg(**options):
    """Two sequences of which 300 and 512 places are seen; the last is the step that is made."""
    def test(kernel):
        utils = importlib.import_module("nkilib.core.attention.attention_tkg_utils")
        allocator = importlib.import_module("nkilib.core.utils.allocator")
        batch, heads, steps, places, d = 2, 4, 1, 512, 128
        q, k, v = (bf16(data(batch, n, steps, d, low=-1, seed=n)) for n in (heads, 1, 1))
        before, values = (bf16(data(*shape, low=-1, seed=5)) for shape in
                          ((batch, 1, d, places), (batch, 1, places, d)))
        seen = np.arange(places)[:, None] < np.array([299, 511])
        seen[-steps:] = True
        mask = np.ascontiguousarray(np.broadcast_to(
            seen[:, :, None, None], (places, batch, heads, steps)).astype(np.uint8))
        given = utils.AttnTKGConfig(bs=batch, q_head=heads, s_active=steps, curr_sprior=places,
                                    full_sprior=places, d_head=d, qk_in_sb=True, **options)

        @nki.jit
        def run(q, k, v, before, values, mask):
            out = nl.ndarray((batch, heads, d, steps), dtype=q.dtype, buffer=nl.shared_hbm)
            manager = allocator.create_auto_alloc_manager()
            manager.open_scope()
            tiles = []
            for x in (q, k):
                tiles.append(nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf))
                nisa.dma_copy(dst=tiles[-1], src=x)
            kernel(*tiles, v, before, values, mask, out, given, manager)
            manager.close_scope()
            return out
        got = run(_turned(q), _turned(k), v, before, values, mask)
        queries, key, value, keys, values = (harness.numbers(x) for x in (q, k, v, before, values))
        keys[..., -steps:], values[..., -steps:, :] = key.transpose(0, 1, 3, 2), value
        scores = np.einsum("bhqd,bds->bhqs", queries, keys[:, 0])
        scores = np.where(mask.transpose(1, 2, 3, 0), scores, -np.inf)
        want = np.einsum("bhqs,bsd->bhdq", softmax(scores), values[:, 0])
        harness.close(got, want, 2e-2, 2e-2)
    return test


def moe_tkg(all_experts):
    def test(kernel):
        types = importlib.import_module("nkilib.core.utils.common_types")
        tokens, h, inner, experts, best = 4, 512, 256, 4, 2
        x = bf16(data(tokens, h, low=-1))
        gates = bf16(data(experts, h, 2, inner, low=-.1, high=.1, seed=1))
        down = bf16(data(experts, inner, h, low=-.1, high=.1, seed=2))
        share = data(tokens, experts, seed=3)
        chosen = np.argsort(-share, -1)[:, :best].astype(np.int32)
        options = {"rank_id": np.zeros((1, 1), np.int32), "mask_unselected_experts": True} \
            if all_experts else {}
        got = nki.jit(kernel)(
            x, gates, down, share, chosen, all_experts,
            expert_affinities_scaling_mode=types.ExpertAffinityScaleMode.POST_SCALE, **options)
        a, g, d = harness.numbers(x), harness.numbers(gates), harness.numbers(down)
        want = np.zeros((tokens, h))
        for t in range(tokens):
            for e in chosen[t]:
                want[t] += share[t, e] * (silu(a[t] @ g[e, :, 0]) * (a[t] @ g[e, :, 1]) @ d[e])
        harness.close(got, want, 3e-2, 3e-2)
    return test


def moe_block(all_experts):
    """A norm, a router that takes the best two of eight experts, and those: of each token its own,
    or all of them one after another."""
    def test(kernel):
        types = importlib.import_module("nkilib.core.utils.common_types")
        tokens, h, inner, experts, best = 4, 512, 256, 8, 2
        x, gamma = bf16(data(2, tokens // 2, h, low=-1)), bf16(data(1, h, seed=4))
        router = bf16(data(h, experts, low=-.1, high=.1, seed=3))
        gates = bf16(data(experts, h, 2, inner, low=-.1, high=.1, seed=1))
        down = bf16(data(experts, inner, h, low=-.1, high=.1, seed=2))
        options = {"rank_id": np.zeros((1, 1), np.int32), "is_all_expert": True} \
            if all_experts else {}
        out, logits = nki.jit(kernel)(
            x, gamma, router, gates, down, top_k=best,
            expert_affinities_scaling_mode=types.ExpertAffinityScaleMode.POST_SCALE, **options)
        a = harness.numbers(bf16(norm(harness.numbers(x), harness.numbers(gamma)))).reshape(-1, h)
        r, g, d = harness.numbers(router), harness.numbers(gates), harness.numbers(down)
        scores = a @ r
        want = np.zeros((tokens, h))
        for t in range(tokens):
            for e in np.argsort(-scores[t])[:best]:
                share = 1 / (1 + np.exp(-scores[t, e]))
                want[t] += share * (silu(a[t] @ g[e, :, 0]) * (a[t] @ g[e, :, 1]) @ d[e])
        harness.close(logits, scores, 2e-2, 2e-2)
        harness.close(out, want, 3e-2, 3e-2)
    return test


KERNELS = (
    ("core", "attention/attention_tkg.py", "attention_tkg", attention_tkg()),
    ("core", "attention/attention_tkg.py", "attention_tkg", attention_tkg(strided_mm1=False)),
    ("core", "moe/moe_tkg/moe_tkg.py", "moe_tkg", moe_tkg(False),
     ("uninit", "tile expert_affinities_sb", "it loads the shares of 4 tokens; its gather reads "
      "those of 128 partitions")),
    ("core", "moe/moe_tkg/moe_tkg.py", "moe_tkg", moe_tkg(True)),
)
