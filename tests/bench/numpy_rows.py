"""NumPy's side of bench_plain: reads the name of a row and how often to do it, does it, and prints the
milliseconds of processor time. One call for each instruction, into arrays that are there, one thread."""
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
if " avx512f" in (open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""):
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")  # some do not know newer processors

import math
import time

import numpy as np

P, W, COLS = 128, 512, 2048
f32, u16, u32 = np.float32, np.uint16, np.uint32
rng = np.random.default_rng(1)


def some(*shape):
    return (rng.random(shape, f32) * 4 - 2).astype(f32)


# bfloat16 is the upper half of a float32: NumPy has no such type.
def narrow(x):
    bits = x.view(u32)
    return ((bits + (0x7fff + (bits >> 16 & 1))) >> 16).astype(u16)


def widen(h):
    return (h.astype(u32) << 16).view(f32)


def matmul(n, bf16):
    a, b = some(n, n), some(n, n)
    if bf16:
        a, b = narrow(a), narrow(b)
    out = np.empty((n, n), f32)
    total, tile = np.empty((P, W), f32), np.empty((P, W), f32)

    def run():
        for m in range(0, n, P):
            for c in range(0, n, W):
                for k in range(0, n, P):
                    x, y = a[k:k + P, m:m + P].copy(), b[k:k + P, c:c + W].copy()
                    if bf16:
                        x, y = widen(x), widen(y)
                    if k == 0:
                        np.matmul(x.T, y, out=total)
                    else:
                        np.add(total, np.matmul(x.T, y, out=tile), out=total)
                out[m:m + P, c:c + W] = total.copy()
    return run


def softmax(rows):
    x, y = some(rows, COLS), np.empty((rows, COLS), f32)
    e, t = np.empty((P, COLS), f32), np.empty((P, COLS), f32)

    def run():
        for r in range(0, rows, P):
            np.copyto(t, x[r:r + P])
            m = np.negative(t.max(axis=1, keepdims=True))
            np.exp(np.add(t, m, out=e), out=e)
            s = np.reciprocal(e.sum(axis=1, keepdims=True))
            y[r:r + P] = np.multiply(e, s, out=t)
    return run


def attention(queries):
    q, k, v = narrow(some(P, queries)), narrow(some(P, COLS)), narrow(some(COLS, P))
    out, s = np.empty((queries, P), f32), np.empty((P, COLS), f32)
    e, scale = np.empty((P, COLS), f32), f32(1 / math.sqrt(P))

    def run():
        tq, tk, tv = q.copy(), k.copy(), v.copy()
        for r in range(0, queries, P):
            w = widen(tq[:, r:r + P])
            for j in range(0, COLS, W):
                np.matmul(w.T, widen(tk[:, j:j + W]), out=s[:, j:j + W])
            m = np.multiply(np.negative(s.max(axis=1, keepdims=True)), scale)
            np.exp(np.add(np.multiply(s, scale, out=e), m, out=e), out=e)
            total, p, o = e.sum(axis=1, keepdims=True), narrow(e), np.zeros((P, P), f32)
            for c in range(0, COLS, P):
                turned = np.ascontiguousarray(p[:, c:c + P].T)
                np.add(o, np.matmul(widen(turned).T, widen(tv[c:c + P])), out=o)
            out[r:r + P] = np.multiply(o, np.reciprocal(total))
    return run


def layernorm(rows):
    x, g, b, y = some(rows, W), some(1, W), some(1, W), np.empty((rows, W), f32)
    t, o = np.empty((P, W), f32), np.empty((P, W), f32)

    def run():
        for r in range(0, rows, P):
            np.copyto(t, x[r:r + P])
            mean, var = t.mean(axis=1, keepdims=True), t.var(axis=1, keepdims=True)
            root = np.reciprocal(np.sqrt(np.add(var, f32(1e-5))))
            np.multiply(np.subtract(t, mean, out=o), root, out=o)
            y[r:r + P] = np.add(np.multiply(o, g, out=o), b, out=o)
    return run


def gelu(x):  # the error function by Abramowitz and Stegun's 7.1.26
    a = np.abs(x) * f32(math.sqrt(0.5))
    t = 1 / (1 + f32(0.3275911) * a)
    p = t * (f32(0.254829592) + t * (f32(-0.284496736) + t * (f32(1.421413741) + t * (
        f32(-1.453152027) + t * f32(1.061405429)))))
    e = 1 - p * np.exp(-a * a)
    return x * f32(0.5) * (1 + np.copysign(e, x))


def mlp(d, h):
    x, w1, b1 = narrow(some(d, W)), narrow(some(d, h)), some(h, 1)
    w2, b2, y = narrow(some(h, d)), some(d, 1), np.empty((d, W), f32)
    hidden, t = np.empty((h, W), u16), np.empty((P, W), f32)

    def product(w, x, blocks, j):
        total = None
        for k in range(0, blocks, P):
            np.matmul(widen(w[k:k + P, j:j + P]).T, widen(x[k:k + P]), out=t)
            total = t.copy() if total is None else np.add(total, t, out=total)
        return total

    def run():
        tx, t1, t2 = x.copy(), w1.copy(), w2.copy()
        for j in range(0, h, P):
            hidden[j:j + P] = narrow(gelu(product(t1, tx, d, j) + b1[j:j + P]))
        for j in range(0, d, P):
            y[j:j + P] = np.add(product(t2, hidden, h, j), b2[j:j + P])
    return run


def scan(rows):
    a, x, h = some(rows, COLS), some(rows, COLS), np.empty((rows, COLS), f32)

    def run():
        for r in range(0, rows, P):
            ta, tx, th = a[r:r + P].copy(), x[r:r + P].copy(), np.empty((P, COLS), f32)
            state = np.zeros(P, f32)
            for t in range(COLS):
                np.multiply(ta[:, t], state, out=state)
                np.add(state, tx[:, t], out=state)
                th[:, t] = state
            h[r:r + P] = th
    return run


def conv(rows):
    x, w = narrow(some(P, rows + 2, 66)), narrow(some(P, 9, P))
    y, t = np.empty((P, rows, 64), f32), np.empty((P, W), f32)

    def run():
        tx, tw = x.copy(), w.copy()
        for n in range(0, rows, 8):
            total = None
            for k in range(9):
                i, j = divmod(k, 3)
                moving = widen(tx[:, n + i:n + i + 8, j:j + 64]).reshape(P, W)
                np.matmul(widen(tw[:, k]).T, moving, out=t)
                total = t.copy() if total is None else np.add(total, t, out=total)
            y[:, n:n + 8] = total.reshape(P, 8, 64)
    return run


def transpose(n):
    x, y = narrow(some(n, n)), np.empty((n, n), u16)

    def run():
        for r in range(0, n, P):
            for c in range(0, n, W):
                t = x[r:r + P, c:c + W].copy()
                for k in range(0, W, P):
                    y[c + k:c + k + P, r:r + P] = np.ascontiguousarray(t[:, k:k + P].T).copy()
    return run


def tile_rows(n):
    """The instructions on one tile of [128, n], by name."""
    x, y, z = some(P, n), some(P, n), np.empty((P, n), f32)
    s, m, e = some(P, 1), np.empty((P, 1), f32), np.empty((P, 8), f32)
    h, g, b = narrow(x), np.empty((P, n), u16), np.empty((P, 6), f32)
    p, two, one, half = rng.random((P, n)) < 0.5, f32(2), f32(1), f32(0.5)
    below = np.arange(n)[None, :] >= np.arange(P)[:, None]
    square = np.empty((P, P), f32)

    def exp_sums():
        np.exp(np.add(x, s, out=z), out=z)
        np.sum(z, axis=1, keepdims=True, out=m)

    def scan_tile():
        state = np.zeros(P, f32)
        for t in range(n):
            np.multiply(x[:, t], state, out=state)
            np.add(state, y[:, t], out=state)
            z[:, t] = state

    def stats():
        for i in range(2):
            np.mean(x[:, i::2], axis=1, out=b[:, i])
            np.var(x[:, i::2], axis=1, out=b[:, 2 + i])

    def gelu_tanh():
        np.multiply(np.multiply(x, half), 1 + np.tanh(f32(0.7978846) * (x + f32(0.044715) * x * x * x)), out=z)

    return {
        "add": lambda: np.add(x, y, out=z),
        "max": lambda: np.maximum(x, y, out=z),
        "add bf16": lambda: np.copyto(g, narrow(np.add(widen(h), widen(h)))),
        "x * 2 + 1": lambda: np.add(np.multiply(x, two, out=z), one, out=z),
        "(x - s) * s": lambda: np.multiply(np.subtract(x, s, out=z), s, out=z),
        "x * 2 + y": lambda: np.add(np.multiply(x, two, out=z), y, out=z),
        "copy": lambda: np.copyto(z, x),
        "reciprocal": lambda: np.reciprocal(x, out=z),
        "exp(x / 2 + s)": lambda: np.exp(np.add(np.multiply(x, half, out=z), s, out=z), out=z),
        "exp(x + s), sums": exp_sums,
        "exp bf16": lambda: np.copyto(g, narrow(np.exp(widen(h)))),
        "tanh": lambda: np.tanh(x, out=z),
        "gelu_apprx_tanh": gelu_tanh,
        "gelu": lambda: np.copyto(z, gelu(x)),
        "silu": lambda: np.divide(x, np.add(np.exp(np.negative(x, out=z), out=z), one, out=z), out=z),
        "row sum": lambda: np.sum(x, axis=1, keepdims=True, out=m),
        "row max": lambda: np.max(x, axis=1, keepdims=True, out=m),
        "transpose32 [128, 128]": lambda: np.copyto(square, x[:, :128].T),
        "to bf16": lambda: np.copyto(g, narrow(x)),
        "from bf16": lambda: np.copyto(z, widen(h)),
        "select": lambda: np.copyto(z, x, where=p),
        "affine_select": lambda: np.copyto(z, np.where(below, x, f32(0))),
        "scan": scan_tile,
        "bn_stats": stats,
        "max8": lambda: np.copyto(e, np.sort(np.partition(x, n - 8, axis=1)[:, n - 8:], axis=1)),
        "tensor_tensor": lambda: np.add(x, y, out=z),
        "tensor_scalar": lambda: np.multiply(x, two, out=z),
        "activate": lambda: np.exp(x, out=z),
        "reduce": lambda: np.sum(x, axis=1, keepdims=True, out=m),
    }


kernels = {
    "matmul fp32": lambda n: matmul(n, False), "matmul bf16": lambda n: matmul(n, True),
    "softmax": softmax, "attention": attention, "layernorm": layernorm, "mlp": lambda d: mlp(d, 4 * d),
    "scan": scan, "conv": conv, "transpose": transpose,
}
made = {}
np.matmul(some(64, 64), some(64, 64))
loaded = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
print("fast" if "openblas" in loaded or "mkl" in loaded else "slow", "BLAS", flush=True)
for line in sys.stdin:  # kind TAB name TAB size TAB times
    kind, name, size, times = line.rstrip("\n").split("\t")
    if line not in made:
        rows = kernels if kind == "kernel" else tile_rows(int(size))
        made = {line: rows[name](int(size)) if kind == "kernel" else rows[name]}  # one at a time
    run = made[line]
    start = time.process_time()
    for _ in range(int(times)):
        run()
    print((time.process_time() - start) * 1e3, flush=True)
