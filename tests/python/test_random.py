"""Random sequences of calls give what NumPy gives: tiles, slices, sums, old and new style mixed.

Values are small whole numbers in float32, so that every order of additions gives the same bits."""
import os
import random
import unittest

import numpy as np
from helper import KernelCase

import nki
import nki.isa as nisa
import nki.language as nl

P, N = 64, 48
ROUNDS = int(os.environ.get("SOMA_RANDOM", "60"))


def steps(rnd, n):
    """A list of calls over four tiles of P x N and a stack of results."""
    kinds = ("binary", "scalar", "slice", "column", "inplace", "copy", "reduce", "psum", "where",
             "transpose", "store", "new", "row", "shift")
    out = []
    for _ in range(n):
        lo = rnd.randrange(N - 1)
        out.append((rnd.choice(kinds), rnd.randrange(4), rnd.randrange(4), rnd.randrange(4),
                    lo, rnd.randrange(lo + 1, N), rnd.randrange(-3, 4), rnd.randrange(5)))
    return out


BINARY = ((nl.add, np.add), (nl.subtract, np.subtract), (nl.maximum, np.maximum),
          (nl.minimum, np.minimum), (nl.greater, np.greater))


def numpy_run(x, program):
    t = [x[i].copy() for i in range(4)]
    stored = []
    for kind, d, a, b, lo, hi, k, which in program:
        f = BINARY[which][1]
        if kind == "binary" or kind == "new":
            t[d] = f(t[a], t[b]).astype(np.float32)
        elif kind == "scalar":
            t[d] = f(t[a], np.float32(k)).astype(np.float32)
        elif kind == "slice":
            t[d][:, lo:hi] = f(t[a][:, lo:hi], t[b][:, lo:hi])
        elif kind == "column":
            t[d] = f(t[a], t[b][:, lo:lo + 1]).astype(np.float32)
        elif kind == "row":
            t[d] = f(t[a], t[b][0:1]).astype(np.float32)
        elif kind == "inplace":
            t[d][:, lo:hi] += t[a][:, lo:hi] * (d != a)
        elif kind == "copy":
            t[d] = t[a].copy()
        elif kind == "reduce":
            t[d][:, lo:lo + 1] = np.max(t[a], axis=1, keepdims=True)
        elif kind == "psum":
            t[d] = (np.clip(t[a], -8, 8).T @ np.clip(t[b], -8, 8)).repeat(2, 0)[:P]
        elif kind == "where":
            t[d] = np.where(t[a] > 0, t[b], np.float32(k)).astype(np.float32)
        elif kind == "transpose":
            t[d][:N, :] = t[a][:N, :N].T
        elif kind == "shift":
            t[d][:, 1:] = t[d][:, :-1].copy()
        else:
            stored.append(t[d].copy())
        t[d] = np.clip(t[d], -1000, 1000)
    return np.stack(stored + t)


def nki_run(x, out, program):
    t = [nl.load(x[i]) for i in range(4)]
    stored = 0
    for kind, d, a, b, lo, hi, k, which in program:
        f = BINARY[which][0]
        if kind == "binary":
            t[d] = f(t[a], t[b])
        elif kind == "new":
            fresh = nl.ndarray((P, N), nl.float32)
            nisa.tensor_tensor(dst=fresh, data1=t[a], data2=t[b], op=f)
            t[d] = fresh
        elif kind == "scalar":
            t[d] = f(t[a], float(k))
        elif kind == "slice":
            t[d][:, lo:hi] = f(t[a][:, lo:hi], t[b][:, lo:hi])
        elif kind == "column":
            t[d] = f(t[a], t[b][:, lo:lo + 1])
        elif kind == "row":
            t[d] = f(t[a], t[b][0:1])
        elif kind == "inplace":
            if d != a:
                t[d][:, lo:hi] += t[a][:, lo:hi]
        elif kind == "copy":
            t[d] = nl.copy(t[a])
        elif kind == "reduce":
            t[d][:, lo:lo + 1] = nl.max(t[a], axis=1)
        elif kind == "psum":
            p, q = (nl.minimum(nl.maximum(v, -8.0), 8.0) for v in (t[a], t[b]))
            sums = nl.zeros((N, N), nl.float32, buffer=nl.psum)
            sums += nisa.nc_matmul(p[0:32], q[0:32])
            sums += nisa.nc_matmul(p[32:P], q[32:P])
            half = nl.copy(sums)
            wide = nl.ndarray((P, N), nl.float32)
            for i in range(P):
                nisa.dma_copy(dst=wide[i:i + 1], src=half[i // 2:i // 2 + 1])
            t[d] = wide
        elif kind == "where":
            t[d] = nl.where(nl.greater(t[a], 0.0), t[b], float(k))
        elif kind == "transpose":
            t[d][0:N, :] = nisa.nc_transpose(t[a][0:N, 0:N])
        elif kind == "shift":
            t[d][:, 1:] = nl.copy(t[d][:, :-1])
        else:
            nl.store(out[stored], t[d])
            stored += 1
        t[d] = nl.minimum(nl.maximum(t[d], -1000.0), 1000.0)
    for i in range(4):
        nl.store(out[stored + i], t[i])


class Random(KernelCase):
    def test_random_sequences_are_numpys(self):
        for seed in range(ROUNDS):
            rnd = random.Random(seed)
            program = steps(rnd, rnd.randrange(1, 14))
            x = np.random.default_rng(seed).integers(-5, 6, (4, P, N)).astype(np.float32)
            want = numpy_run(x, program)

            @nki.jit
            def kernel(a):
                out = nl.ndarray(want.shape, nl.float32, buffer=nl.shared_hbm)
                nki_run(a, out, program)
                return out
            with self.subTest("seed %d: %s" % (seed, program)):
                np.testing.assert_array_equal(kernel(x), want)
                if seed % 10 == 0:
                    self.clean(kernel, x)


if __name__ == "__main__":
    unittest.main()
