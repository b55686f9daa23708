"""Attention with all scores in SBUF, and flash attention, whose softmax goes over blocks of keys.

    build/soma-nki samples/nki/flash_attention.py

q, k: (128, N), head dimension first; v: (N, 128). Both are compared with NumPy. The first needs N *
4 bytes of SBUF in each partition for the scores of 128 queries, the second only one block."""
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

BLOCK = 512


def tile(*shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer=buffer)


def load(src):
    t = tile(*src.shape)
    nisa.dma_copy(dst=t, src=src)
    return t


def times_values(out, p, v):
    """out[128, 128] (PSUM) = p[128, n] @ v: p is transposed 128 columns at a time."""
    for i, rows in enumerate(v):
        turned, moving = tile(128, 128, buffer=nl.psum), tile(128, 128)
        nisa.nc_transpose(dst=turned, data=p[:, nl.ds(i * 128, 128)])
        nisa.tensor_copy(dst=moving, src=turned)
        nisa.nc_matmul(dst=out, stationary=moving, moving=rows, accumulate=i > 0)


@nki.jit
def attention(q, k, v):
    """Softmax of whole rows of scores."""
    n = q.shape[1]
    out = nl.ndarray((n, 128), q.dtype, buffer=nl.shared_hbm)
    keys = load(k)
    values = [load(v[nl.ds(i * 128, 128)]) for i in range(n // 128)]
    for i in range(n // 128):
        queries, scores = load(q[:, nl.ds(i * 128, 128)]), tile(128, n)
        for j in range(n // BLOCK):
            s = tile(128, BLOCK, buffer=nl.psum)
            nisa.nc_matmul(dst=s, stationary=queries, moving=keys[:, nl.ds(j * BLOCK, BLOCK)])
            nisa.tensor_copy(dst=scores[:, nl.ds(j * BLOCK, BLOCK)], src=s)
        top, total = tile(128, 1), tile(128, 1)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1, negate=True)
        nisa.activation(dst=scores, op=nl.exp, data=scores, bias=top, reduce_op=nl.add,
                        reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.reciprocal(dst=total, data=total)
        result, done = tile(128, 128, buffer=nl.psum), tile(128, 128)
        times_values(result, scores, values)
        nisa.tensor_scalar(dst=done, data=result, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[nl.ds(i * 128, 128)], src=done)
    return out


@nki.jit
def flash_attention(q, k, v):
    """The same with a running maximum and a running sum: each block of keys scales what was
    before."""
    n = q.shape[1]
    out = nl.ndarray((n, 128), q.dtype, buffer=nl.shared_hbm)
    for i in range(n // 128):
        queries = load(q[:, nl.ds(i * 128, 128)])
        high, total, sums = tile(128, 1), tile(128, 1), tile(128, 128)
        for j in range(n // BLOCK):
            s, p = tile(128, BLOCK, buffer=nl.psum), tile(128, BLOCK)
            nisa.nc_matmul(dst=s, stationary=queries, moving=load(k[:, nl.ds(j * BLOCK, BLOCK)]))
            top, part, old = tile(128, 1), tile(128, 1), tile(128, 1)
            nisa.tensor_reduce(dst=top, op=nl.maximum, data=s, axis=1, negate=True)
            if j:  # of negated maxima the least
                nisa.tensor_copy(dst=old, src=high)
                nisa.tensor_tensor(dst=top, data1=top, data2=high, op=nl.minimum)
            nisa.tensor_copy(dst=high, src=top)
            nisa.activation(dst=p, op=nl.exp, data=s, bias=top, reduce_op=nl.add, reduce_res=part,
                            reduce_cmd=nisa.reduce_cmd.reset_reduce)
            rows = [load(v[nl.ds(j * BLOCK + c * 128, 128)]) for c in range(BLOCK // 128)]
            block = tile(128, 128, buffer=nl.psum)
            times_values(block, p, rows)
            if not j:
                nisa.tensor_copy(dst=sums, src=block)
                nisa.tensor_copy(dst=total, src=part)
                continue
            factor = tile(128, 1)  # exp(old maximum - new maximum)
            nisa.tensor_tensor(dst=factor, data1=top, data2=old, op=nl.subtract)
            nisa.activation(dst=factor, op=nl.exp, data=factor)
            nisa.scalar_tensor_tensor(dst=sums, data=sums, op0=nl.multiply, operand0=factor,
                                      op1=nl.add, operand1=block)
            nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=factor,
                                      op1=nl.add, operand1=part)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[nl.ds(i * 128, 128)], src=sums)
    return out


def reference(q, k, v):
    s = q.T.astype(np.float64) @ k
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v


def main():
    rng = np.random.default_rng(0)
    n = 1024
    q, k = (rng.standard_normal((128, n)).astype(np.float32) * 0.3 for _ in range(2))
    v = rng.standard_normal((n, 128)).astype(np.float32)
    want = reference(q, k, v)
    print("kernel            simulated us  instructions  largest error")
    for kernel in (attention, flash_attention):
        run = kernel.run(q, k, v)
        error = np.abs(run.result - want).max()
        assert error < 1e-4
        print("%-16s  %12.1f  %12d  %.1e" % (
            kernel.__name__, run.time_us, run.built.figures()["instructions"], error))
        found = [f for f in kernel.check(q, k, v) if f.check != "range"]
        assert not found, found
    print("\nWhat the time of the last one went into:\n")
    print("\n".join(run.explain().split("\n")[:8]))


if __name__ == "__main__":
    main()
