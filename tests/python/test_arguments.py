"""Arguments of any kind to every function of nki.isa and nki.language: a call works or is refused
by an error for users; nothing else comes out, and what was recorded runs or is refused.

`SOMA_RANDOM=N SOMA_FIRST=N` run that many kernels, from that seed."""
import inspect
import os
import random
import unittest
import warnings

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from soma.errors import SomaError

ROUNDS, FIRST = int(os.environ.get("SOMA_RANDOM", "150")), int(os.environ.get("SOMA_FIRST", "0"))
FOR_USERS = (SomaError, TypeError, ValueError, IndexError, AssertionError, FileNotFoundError)


def functions():
    """(name, function, parameters) of each."""
    for module in (nisa, nl):
        for name in module.__all__:
            f = getattr(module, name)
            if inspect.isroutine(f):
                yield name, f, list(inspect.signature(f).parameters.values())


CALLS = list(functions())
TYPES = (nl.float32, nl.float32, nl.int32, nl.bfloat16, nl.uint8, nl.uint16)


def value(rnd, tiles):
    made = (
        lambda: rnd.choice(tiles),
        lambda: rnd.choice(tiles),
        lambda: rnd.choice(tiles),
        lambda: rnd.choice(tiles)[:, 0:rnd.choice((1, 8, 40))],
        lambda: rnd.choice(tiles)[0:rnd.choice((1, 32, 64))],
        lambda: rnd.choice((0, 1, -1, 2, 3.5, None, "x", (1, 2), [[1, 4]], True, float("nan"),
                            float("inf"), 1 << 70, -(1 << 40))),
        lambda: rnd.choice((nl.add, nl.exp, np.add, nl.maximum, nl.multiply, nl.bitwise_and)),
        lambda: rnd.choice(list(nisa.engine)),
        lambda: rnd.choice((nl.float32, nl.bfloat16, nl.int32, nl.uint8)),
        lambda: nl.mgrid[0:64, 0:40][rnd.randrange(2)],
        lambda: nl.arange(40)[None, :] < rnd.randrange(50),
        lambda: np.zeros((3, 4), np.float32),
        lambda: nisa.register_alloc(3),
        lambda: nl.ds(0, 5),
        lambda: (64, 40),
        lambda: rnd.choice((nisa.reduce_cmd.reset_reduce, nisa.dge_mode.swdge)))
    return rnd.choice(made)()


class Arguments(unittest.TestCase):
    def one(self, seed):
        rnd = random.Random(seed)

        def kernel(a):
            tiles = [nl.ndarray((64, 40), t, buffer=nl.sbuf) for t in TYPES]
            tiles.append(nl.ndarray((64, 40), nl.float32, buffer=nl.psum))
            for t in tiles:
                nisa.memset(dst=t, value=1)
            tiles.append(a)
            for _ in range(6):
                name, function, parameters = rnd.choice(CALLS)
                given = {p.name: value(rnd, tiles) for p in parameters
                         if p.kind is not p.VAR_KEYWORD and p.kind is not p.VAR_POSITIONAL
                         and (p.default is p.empty or rnd.random() < 0.4)}
                try:
                    made = function(**given)
                except FOR_USERS:
                    continue
                except Exception as error:
                    raise RuntimeError("%s(%s): %s: %s" % (
                        name, given, type(error).__name__, error)) from error
                if hasattr(made, "words") and rnd.random() < 0.5:
                    tiles.append(made)
            out = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tiles[0])
            return out
        try:
            nki.jit(kernel)(np.ones((64, 40), np.float32))
        except FOR_USERS:  # a RuntimeError from above is none of them
            pass

    def test_any_arguments(self):
        self.assertGreater(len(CALLS), 150)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in range(FIRST, FIRST + ROUNDS):
                with self.subTest(seed):
                    self.one(seed)


if __name__ == "__main__":
    unittest.main()
