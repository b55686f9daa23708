"""An MLP on four ranks, as large models are split: each rank has a quarter of the hidden units, so
that what each calculates is one term of the result, and an all_reduce adds the terms.

    build/soma-nki samples/nki/tensor_parallel.py [FOLDER for the picture]

It is done twice: with one all_reduce after everything, and with one after each 512 tokens. Then the
DMA engines add terms while the engines calculate the next ones."""
import math
import sys

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import soma
from nki.collectives import ReplicaGroup

TOKENS, WIDTH, HIDDEN, BLOCK = 2048, 512, 2048, 512


def load(tensor):
    """The tiles of 128 rows of a tensor in HBM."""
    tiles = []
    for i in range(tensor.shape[0] // 128):
        t = nl.ndarray((128, tensor.shape[1]), tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=tensor[nl.ds(i * 128, 128)])
        tiles.append(t)
    return tiles


@nki.jit
def mlp(xt, w1, w2, group, pieces):
    """This rank's term of gelu(x w1) w2, and the sum of all terms in so many pieces. xt is the
    transpose of x."""
    tokens, width = xt.shape[1], w2.shape[1]
    xs, first, second = load(xt), load(w1), load(w2)
    term, total, y = (nl.ndarray((tokens, width), xt.dtype, buffer=nl.shared_hbm)
                      for _ in range(3))
    for b in range(0, tokens, BLOCK):
        hidden = []
        for f in range(w1.shape[1] // 128):
            sums = nl.ndarray((128, BLOCK), nl.float32, buffer=nl.psum)
            for k, x in enumerate(xs):
                nisa.nc_matmul(dst=sums, stationary=first[k][:, nl.ds(f * 128, 128)],
                               moving=x[:, nl.ds(b, BLOCK)])
            h = nl.ndarray((128, BLOCK), xt.dtype, buffer=nl.sbuf)
            nisa.activation(dst=h, op=nl.gelu, data=sums)
            hidden.append(h)
        for t in range(0, BLOCK, 128):
            sums = nl.ndarray((128, width), nl.float32, buffer=nl.psum)
            for f, h in enumerate(hidden):
                nisa.nc_matmul(dst=sums, stationary=h[:, nl.ds(t, 128)], moving=second[f])
            out = nl.ndarray((128, width), xt.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=out, src=sums)
            nisa.dma_copy(dst=term[nl.ds(b + t, 128)], src=out)
        n = tokens // pieces
        if (b + BLOCK) % n == 0:
            rows = nl.ds(b + BLOCK - n, n)
            ncc.all_reduce(srcs=[term[rows]], dsts=[total[rows]], replica_group=group, op=nl.add)
            nisa.dma_copy(dst=y[rows], src=total[rows])
    return y


def parts(x, w1, w2, ranks, pieces):
    """The arguments of a rank: its columns of w1 and its rows of w2."""
    n, group = HIDDEN // ranks, ReplicaGroup([list(range(ranks))])
    xt, w1, w2 = (a.astype(np.float16) for a in (x.T, w1, w2))
    return lambda r: dict(xt=xt, w1=w1[:, r * n:(r + 1) * n], w2=w2[r * n:(r + 1) * n],
                          group=group, pieces=pieces)


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / 2 ** 0.5))


def main():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((TOKENS, WIDTH), dtype=np.float32)
    w1 = rng.standard_normal((WIDTH, HIDDEN), dtype=np.float32) / WIDTH ** 0.5
    w2 = rng.standard_normal((HIDDEN, WIDTH), dtype=np.float32) / HIDDEN ** 0.5
    want = gelu(x @ w1) @ w2
    for ranks, pieces in ((1, 1), (2, 1), (4, 1), (4, 2), (4, 4)):
        run = soma.world(ranks=ranks).run(mlp, parts(x, w1, w2, ranks, pieces))
        error = max(np.abs(y - want).max() for y in run.results) / np.abs(want).max()
        assert error < 2e-3, error
        print("%d rank%s, %d all-reduce%s: %6.1f us, error %.0e" % (
            ranks, " s"[ranks > 1], pieces, " s"[pieces > 1], run.time_us, error))
    if len(sys.argv) > 1:
        run = soma.world(ranks=4, record=True).run(mlp, parts(x, w1, w2, 4, 4))
        with open(sys.argv[1] + "/nki_tensor_parallel.svg", "w") as f:
            f.write(run.svg(rows=("tensor", "scalar", "collectives", "cc0", "cc1")))


if __name__ == "__main__":
    main()
