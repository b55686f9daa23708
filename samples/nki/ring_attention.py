"""Attention over a sequence that is split over ranks: ring attention.

    build/soma-nki samples/nki/ring_attention.py [FOLDER for the picture]

Each rank has the queries of its part of the sequence, and its keys and values. Keys and values go
around the ring: while a rank's engines work on those that it has, the DMA engines bring the next
ones, and after as many rounds as ranks each has seen all. What is kept between rounds is the
largest score so far, the sum and the result, as in flash attention."""
import sys

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import soma
from nki.collectives import ReplicaGroup

D, SEQUENCE, PART = 128, 2048, 512  # of a head; its sequence; keys that are used at once


def tile(parts, free, dtype=nl.float32):
    return nl.ndarray((parts, free), dtype, buffer=nl.sbuf)


def moved(src, shape):
    t = nl.ndarray(shape, src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=src)
    return t


def attend(q, kt, v, top, total, acc):
    """Adds PART keys and their values to what a block of 128 queries has so far."""
    scores = nl.ndarray((128, PART), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q, moving=kt)
    new, e, row, scale = tile(128, 1), tile(128, PART, nl.float16), tile(128, 1), tile(128, 1)
    nisa.tensor_reduce(dst=new, op=nl.maximum, data=scores, axis=1, negate=True)
    nisa.tensor_tensor(dst=new, data1=new, data2=top, op=nl.minimum)  # both are negated
    nisa.activation_reduce(dst=e, op=nl.exp, data=scores, bias=new, reduce_op=nl.add,
                           reduce_res=row)
    nisa.tensor_tensor(dst=scale, data1=new, data2=top, op=nl.subtract)
    nisa.activation(dst=scale, op=nl.exp, data=scale)
    nisa.tensor_copy(dst=top, src=new)
    nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=scale, op1=nl.add,
                              operand1=row)
    sums = nl.ndarray((128, D), nl.float32, buffer=nl.psum)
    for k in range(0, PART, 128):
        turned = nl.ndarray((128, 128), nl.float16, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=e[:, nl.ds(k, 128)])
        p = tile(128, 128, nl.float16)
        nisa.tensor_copy(dst=p, src=turned)
        nisa.nc_matmul(dst=sums, stationary=p, moving=v[k // 128])
    nisa.scalar_tensor_tensor(dst=acc, data=acc, op0=nl.multiply, operand0=scale, op1=nl.add,
                              operand1=sums)


@nki.jit
def ring_attention(qt, kt, v, group, ranks):
    """qt and kt are transposes, [D, rows]; v is [rows, D]; qt is divided by the root of D."""
    rows = v.shape[0]
    out = nl.ndarray((rows, D), nl.float32, buffer=nl.shared_hbm)
    here = [nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for x in (kt, v)]
    for into, x in zip(here, (kt, v)):
        nisa.dma_copy(dst=into, src=x)
    blocks = []
    for b in range(0, rows, 128):
        top, total, acc = tile(128, 1), tile(128, 1), tile(128, D)
        nisa.memset(dst=top, value=3e38)
        nisa.memset(dst=total, value=0.0)
        nisa.memset(dst=acc, value=0.0)
        blocks.append((moved(qt[:, nl.ds(b, 128)], (D, 128)), top, total, acc))
    for r in range(ranks):
        keys = moved(here[0], (D, rows))
        values = [moved(here[1][nl.ds(k, 128)], (128, D)) for k in range(0, rows, 128)]
        if r < ranks - 1:
            there = [nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for x in here]
            for x, into in zip(here, there):
                ncc.collective_permute_implicit([[x]], [[into]], group)
            here = there
        for k in range(0, rows, PART):
            for q, top, total, acc in blocks:
                attend(q, keys[:, nl.ds(k, PART)], values[k // 128:], top, total, acc)
    for b, (_, _, total, acc) in enumerate(blocks):
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=acc, data=acc, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[nl.ds(b * 128, 128)], src=acc)
    return out


def main():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((SEQUENCE, D)).astype(np.float16) for _ in range(3))
    q = (q / D ** 0.5).astype(np.float16)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    e = np.exp(scores - scores.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True) @ v.astype(np.float64)
    for ranks in (1, 2, 4):
        n, group = SEQUENCE // ranks, ReplicaGroup([list(range(ranks))])

        def part(r):
            rows = slice(r * n, (r + 1) * n)
            return dict(qt=np.ascontiguousarray(q[rows].T), kt=np.ascontiguousarray(k[rows].T),
                        v=v[rows], group=group, ranks=ranks)
        run = soma.world(ranks=ranks, record=True).run(ring_attention, part)
        error = np.abs(np.concatenate(run.results) - want).max() / np.abs(want).max()
        assert error < 2e-3, error
        print("%d rank%s: %7.1f us, error %.0e" % (ranks, "s" if ranks > 1 else " ", run.time_us,
                                                  error))
    if len(sys.argv) > 1:  # of the last, on four ranks
        with open(sys.argv[1] + "/nki_ring_attention.svg", "w") as f:
            f.write(run.svg(rows=("tensor", "vector", "collectives", "cc0")))


if __name__ == "__main__":
    main()
