"""Random views, masks, transposes, operands in PSUM, in both styles, against NumPy: the same, or
refused (random_views.py makes the sequences).

`SOMA_RANDOM=10000 SOMA_FIRST=0` run that many, from that seed (`make nki-random`);
`SOMA_REFUSED=1` prints what was refused, and how often each two features met in one call."""
import collections
import itertools
import os
import sys
import unittest

import numpy as np
from helper import KernelCase
from random_views import N, P, TYPES, Model, Sequence, Tiles

import nki
import nki.language as nl
from soma.errors import KernelError

ROUNDS = int(os.environ.get("SOMA_RANDOM", "200"))
FIRST = int(os.environ.get("SOMA_FIRST", "0"))


def kernel_of(sequence):
    @nki.jit
    def kernel(x):
        tiles = []
        for i in range(4):
            tiles.append(nl.ndarray((P, N), TYPES[sequence.kinds[i]], buffer=nl.sbuf))
            tiles[i][...] = nl.load(x[i])
        run = Tiles(tiles)
        for _, _, step in sequence.steps:
            step(run)
        out = []
        for t in run.vars:
            out.append(nl.ndarray(t.shape, nl.float32, buffer=nl.shared_hbm))
            nl.store(out[-1], t)
        return tuple(out)
    return kernel


class RandomViews(KernelCase):
    def one(self, seed):
        """Whether the sequence of a seed was run; else it was refused."""
        sequence = Sequence(seed)
        x = np.random.default_rng(seed).integers(-5, 6, (4, P, N)).astype(np.float32)
        model = Model(x, sequence.kinds)
        for _, step, _ in sequence.steps:
            step(model)
        kernel = kernel_of(sequence)
        try:
            got = kernel(x)
        except (KernelError, NotImplementedError) as error:
            text = getattr(error, "text", str(error))
            self.refused.setdefault(text[:70], []).append(seed)
            return False
        for i, (g, want) in enumerate(zip(got, model.vars)):
            np.testing.assert_array_equal(g.reshape(want.shape), want, "variable %d" % i)
        if seed % 20 == 0:
            found = [f for f in kernel.check(x, schedules=2) if f.check != "range"]
            # what a mask leaves out is stored too, and compared: zero here
            found = [f for f in found if f.check != "uninit" or "it was left out at" not in f.text]
            self.assertEqual(found, [])
        for features, _, _ in sequence.steps:
            self.met.update(itertools.combinations_with_replacement(sorted(features), 2))
        return True

    def test_random_views_are_numpys(self):
        self.refused, self.met, ran = {}, collections.Counter(), 0
        for seed in range(FIRST, FIRST + ROUNDS):
            with self.subTest("seed %d: %s" % (seed, [sorted(f) for f, _, _ in
                                                      Sequence(seed).steps])):
                ran += self.one(seed)
            if seed % 1000 == 999:
                print("%d, %d of them ran" % (seed + 1, ran), file=sys.stderr, flush=True)
        self.assertGreater(ran, ROUNDS // 2, self.refused)
        if os.environ.get("SOMA_REFUSED"):
            self.report(ran)

    def report(self, ran):
        for text, seeds in sorted(self.refused.items(), key=lambda item: -len(item[1])):
            print("%6d  %s (seed %d)" % (len(seeds), text, seeds[0]))
        names = sorted({n for pair in self.met for n in pair})
        print("%d sequences, %d agree, %d refused; calls that agree with both features:"
              % (ROUNDS, ran, ROUNDS - ran))
        for i, a in enumerate(names):
            print("%3d %-26s" % (i, a) + "".join(
                "%5d" % self.met[tuple(sorted((a, b)))] for b in names[:i + 1]))
        print(" " * 30 + "".join("%5d" % i for i in range(len(names))))


if __name__ == "__main__":
    unittest.main()
