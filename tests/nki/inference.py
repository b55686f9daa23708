"""neuronx-distributed-inference: the kernels of contributed models."""
import os

import numpy as np

import harness

FOLDER = "neuronx-distributed-inference"
MODELS = os.path.join("contrib", "models")
QWEN = os.path.join(MODELS, "Qwen3.5-2B", "src", "nki_kernels")


def _data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def _delta_rule(q, k, v, g, beta, state):
    """The recurrence of all tokens: outputs, the last state."""
    out, state = [], np.array(state, np.float64)
    for t in range(len(q)):
        state = state * np.exp(g[t])
        state = state + np.outer(k[t], (v[t] - k[t] @ state) * beta[t])
        out.append(q[t] @ state)
    return np.array(out), state


def _tokens(n, seed=0):
    q, k, v = (_data(n, 128, seed=seed + i) for i in range(3))
    g, beta = -np.abs(_data(n, seed=seed + 3)) * 0.1, 1 / (1 + np.exp(_data(n, seed=seed + 4)))
    return q, k, v, g.astype(np.float32), beta.astype(np.float32)


def _wide(x):
    return np.repeat(x[:, None], 128, 1)


def _recurrent(module):
    q, k, v, g, beta = _tokens(24)
    q, k = _unit(q) / np.sqrt(128).astype(np.float32), _unit(k)
    want, last = _delta_rule(q, k, v, g, beta, np.zeros((128, 128)))
    harness.close(module.deltanet_recurrent_fwd(q, k, v, _wide(g), _wide(beta)), want, 1e-4, 1e-4)
    got = module.deltanet_recurrent_fwd_state(q, k, v, _wide(g), _wide(beta))
    harness.close(got[0], want, 1e-4, 1e-4)
    harness.close(got[1], last, 1e-4, 1e-4)


def _step(module):
    q, k, v, g, beta = _tokens(3)
    q, k, state = _unit(q), _unit(k), _data(3, 128, 128, seed=9)
    got = module.deltanet_recurrent_step_batched(q, k, v, g[:, None], beta[:, None],
                                                 state.reshape(384, 128))
    one = module.deltanet_recurrent_step(q[:1], k[:1], v[:1], _wide(g[:1]), _wide(beta[:1]),
                                         state[0])
    for i in range(3):
        want, last = _delta_rule(*(x[i:i + 1] for x in (q, k, v, g, beta)), state[i])
        harness.close(got[0][i:i + 1], want, 1e-4, 1e-4)
        harness.close(got[1][i * 128:i * 128 + 128], last, 1e-4, 1e-4)
        if i == 0:
            harness.close(one[0], want, 1e-4, 1e-4)
            harness.close(one[1], last, 1e-4, 1e-4)


def _masks():
    lower = np.tril(np.ones((128, 128), np.float32))
    return lower - np.eye(128, dtype=np.float32), np.eye(128, dtype=np.float32), lower


def _chunk(module):
    q, k, v, g, beta = _tokens(128)
    q, k, state = _unit(q) / np.float32(128 ** 0.5), _unit(k), _data(128, 128, seed=9)
    want, last = _delta_rule(q, k, v, g, beta, state)
    total = np.cumsum(g).astype(np.float32)
    got = module.deltanet_chunk_step(q, k, v, _wide(beta), _wide(total),
                                     np.full((128, 128), total[-1], np.float32), state, *_masks())
    harness.close(got[0], want, 1e-3, 1e-3)
    harness.close(got[1], last, 1e-3, 1e-3)


def _fused(normalizes):
    def run(module):
        q, k, v, g, beta = _tokens(256)
        state = _data(128, 128, seed=9)
        q_unit, k_unit = _unit(q) / np.float32(128 ** 0.5), _unit(k)
        if not normalizes:
            q, k = q_unit, k_unit
        want, last = _delta_rule(q_unit, k_unit, v, g, beta, state)
        got = module.deltanet_fused_chunked_fwd(q, k, v, g[:, None], beta[:, None], state,
                                                *_masks())
        harness.close(got[0], want, 1e-3, 1e-3)
        harness.close(got[1], last, 1e-3, 1e-3)
    return run


def _heads(module):
    many = [_tokens(256, 10 * h) for h in range(2)]
    state = _data(2, 128, 128, seed=9)
    q, k, v, g, beta = (np.stack([m[i] for m in many]) for i in range(5))
    got = module.deltanet_fused_chunked_fwd_multihead[2](q, k, v, g[..., None], beta[..., None],
                                                         state, *_masks())
    for h in range(2):
        want, last = _delta_rule(_unit(q[h]) / 128 ** 0.5, _unit(k[h]), v[h], g[h], beta[h],
                                 state[h])
        harness.close(got[0][h], want, 1e-3, 1e-3)
        harness.close(got[1][h], last, 1e-3, 1e-3)


def _prefix(module):
    a, b, first = _data(3, 128, 128) / 16, _data(3, 128, 128, seed=1), _data(128, 128, seed=2)
    base, by = _data(3, 128, 128, seed=3), _data(3, 128, 128, seed=4) / 16
    states = [first]
    for i in range(3):
        states.append(a[i] @ states[-1] + b[i])
    want = np.concatenate([base[i] + by[i] @ states[i] for i in range(3)])
    got = module.deltanet_autocp_state_prefix(a, b, first)
    harness.close(got[0], np.stack(states[:3]), 1e-4, 1e-4)
    harness.close(got[1], states[3], 1e-4, 1e-4)
    harness.close(module.deltanet_autocp_apply_output(base, by, np.stack(states[:3])), want, 1e-4,
                  1e-4)
    got = module.deltanet_autocp_prefix_apply_output(base, by, a, b, first)
    harness.close(got[0], want, 1e-4, 1e-4)
    harness.close(got[1], states[3], 1e-4, 1e-4)


def _affine(module):
    q, k, v, g, beta = _tokens(512)
    state = _data(128, 128, seed=9)
    want, last = _delta_rule(_unit(q) / 128 ** 0.5, _unit(k), v, g, beta, state)
    base, by, matrix, bias = module.deltanet_autocp_affine_sequence[2](
        q, k, v, g[:, None], beta[:, None], *_masks())
    one = module.deltanet_autocp_affine_chunk(q[:128], k[:128], v[:128], g[:128, None],
                                              beta[:128, None], *_masks())
    for whole, first in zip((base, by, matrix, bias), one):
        harness.close(whole[0], first, 1e-4, 1e-4)
    for c in range(4):
        harness.close(base[c] + by[c] @ state, want[c * 128:c * 128 + 128], 1e-3, 1e-3)
        state = matrix[c] @ state + bias[c]
    harness.close(state, last, 1e-3, 1e-3)


def _summary(module):
    q, k, v, g, beta = _tokens(256 * module.AUTOCP_CP_CHUNKS)
    state = _data(128, 128, seed=9)
    _, last = _delta_rule(_unit(q), _unit(k), v, g, beta, state)
    matrix, bias = module.deltanet_autocp_state_summary_sequence[2](
        k, v, g[:, None], beta[:, None], *_masks()[:2])
    for m, b in zip(matrix, bias):
        state = m @ state + b
    harness.close(state, last, 1e-3, 1e-3)


def _norm_rope(module):
    q, k = _data(1, 200, 512), _data(1, 200, 256, seed=1)
    gammas = [1 + 0.1 * _data(256, seed=s) for s in (2, 3)]
    angle = _data(1, 200, 32, seed=4)
    cos, sin = (np.concatenate([f(angle)] * 2, -1) for f in (np.cos, np.sin))
    got = module.qwen_qk_norm_partial_rope_kernel(q, k, *gammas, cos, sin, 1e-6)
    for x, gamma, g in zip((q, k), gammas, got):
        x = x.reshape(1, 200, -1, 256).transpose(0, 2, 1, 3)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gamma
        turned = np.concatenate((-x[..., 32:64], x[..., :32]), -1)
        want = x.copy()
        want[..., :64] = x[..., :64] * cos[:, None] + turned * sin[:, None]
        harness.close(g, want, 1e-3, 1e-3)


def _mla(module):
    heads, n = 2, 1024
    q_pe, q, cache = _data(4, 64), _data(4, 512, seed=1), _data(2, n, 576, seed=2)
    absorb, mask = _data(heads, 256, 512, seed=3) / 16, np.ones((4, n), np.uint8)
    mask[:, 900:] = 0
    got = module.mla_attention_tkg(q_pe, q, cache, absorb, mask, softmax_scale=0.0625, n_heads=2,
                                   seq_len=n)
    want = []
    for i in range(4):
        keys, values = cache[i // 2, :, :64], cache[i // 2, :, 64:]
        s = np.where(mask[i], (keys @ q_pe[i] + values @ q[i]) * 0.0625, -9984.0)
        p = np.exp(s - s.max())
        want.append(absorb[i % 2] @ (p / p.sum() @ values))
    harness.close(got, np.stack(want), 1e-3, 1e-3)


def _cross(module):
    q, k, v = _data(2, 512, 128) / 11, _data(2, 1024, 128, seed=1), _data(2, 1024, 128, seed=2)
    mask = np.where(np.arange(1024) < 700, 0.0, -1e4).astype(np.float32)[None].repeat(2, 0)
    s = q @ k.transpose(0, 2, 1) + mask[:, None]
    p = np.exp(s - s.max(-1, keepdims=True))
    harness.close(module.cross_attn_kernel(q, k, v, mask), p / p.sum(-1, keepdims=True) @ v, 1e-2,
                  1e-2)


def _rolling(module):
    buffer, new = _data(4, 8, 256), _data(3, 256, seed=1)
    batch, at = np.array([2, 0, 3], np.int32), np.array([7, 0, 5], np.int32)
    want = buffer.copy()
    want[batch, at] = new
    harness.close(module.rolling_buffer_set_state(buffer, new, batch, at), want, 0, 0)
    harness.close(buffer, want, 0, 0)


def cases(table, folder):
    def case(path, name, test, **options):
        table.case(FOLDER, path, name, lambda: test(harness.load(os.path.join(folder, path))),
                   **options)
    file = os.path.join(QWEN, "nki_deltanet.py")
    case(file, "deltanet_recurrent_fwd", _recurrent)
    case(file, "deltanet_recurrent_step", _step)
    case(os.path.join(QWEN, "nki_deltanet_chunked.py"), "deltanet_chunk_step", _chunk)
    name = "deltanet_fused_chunked_fwd"
    case(os.path.join(QWEN, "nki_deltanet_fused_legacy.py"), name, _fused(False))
    file = os.path.join(QWEN, "nki_deltanet_fused.py")
    case(file, name, _fused(True))
    case(file, name + "_multihead", _heads)
    case(file, "deltanet_autocp_state_prefix", _prefix)
    case(file, "deltanet_autocp_affine_sequence", _affine)
    case(file, "deltanet_autocp_state_summary_sequence", _summary)
    case(os.path.join(QWEN, "qwen_qk_norm_rope.py"), "qwen_qk_norm_partial_rope_kernel", _norm_rope)
    case(os.path.join(MODELS, "GLM-5.2", "src", "mla_attention_nki_kernel.py"),
         "mla_attention_tkg", _mla)
    case(os.path.join(MODELS, "ltx2-video-audio", "src", "nki_cross_attention_kernel.py"),
         "cross_attn_kernel", _cross)
    eagle = os.path.join("src", "neuronx_distributed_inference", "modules", "eagle")
    case(os.path.join(eagle, "hidden_state.py"), "rolling_buffer_set_state", _rolling)
