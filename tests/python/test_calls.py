"""What the module in C does of a call is what Python's function does: the same program, or the same
error."""
import inspect
import os
import random
import unittest
import warnings

import numpy as np
from helper import data

import nki.isa as nisa
import nki.language as nl
from soma import launch
from soma.native import _soma

ROUNDS, FIRST = int(os.environ.get("SOMA_RANDOM", "300")), int(os.environ.get("SOMA_FIRST", "0"))
CALLS = [f for module in (nisa, nl) for f in vars(module).values() if isinstance(f, _soma.Call)]
OF_ISA = [f for f in CALLS if f.__module__.startswith("nki.isa")] + [nl.load, nl.store]
SHAPES = (64, 40), (64, 40), (64, 40), (64, 1), (64, 1), (64, 5, 8), (1, 40), \
    (64, 2, 2, 2, 5), (2, 2, 2, 2, 2, 2, 2)
TYPES = (nl.float32,) * 4 + (nl.bfloat16, nl.int32, nl.uint8)
OPS = nl.add, nl.multiply, np.subtract, nl.less, nl.maximum, nl.power, nl.bitwise_and, nl.rsqrt, \
    nl.abs, nl.exp, nl.copy, None, [1]
FUNCTIONS = nl.exp, nl.copy, np.exp, "gelu", nl.add, None
NUMBERS = 0.5, 1.0, 0.0, -0.0, 2, 0, True, None, np.float32(0.25), np.float64(3), 1e39, 1 << 70, \
    float("nan"), float("inf"), "x"
ENGINES = nisa.engine.unknown, nisa.vector_engine, nisa.gpsimd_engine, None, 7


FLAGS = "negate", "keepdims", "reduce_res_negate", "reverse_pred", "is_transpose", \
    "is_stationary_onezero", "is_moving_onezero"
SUMS = None, False, True, 0, 1
PATTERNS = [[1, 40]], ([1, 5], [8, 8]), [(2, 40)], [], [[1, 2]] * 5, [1, 40], "x"
LINES = [eval("\n" * i + "lambda f, given, named: f(*given, **named)") for i in range(24)]


def value(rnd, f, name, tiles, of_hbm, tame):
    """Something for an argument of that name: tame, what it is in most calls."""
    pick = (lambda of: rnd.choice(of[:max(len(of) // 3, 1)])) if tame else rnd.choice
    odd = lambda: pick(NUMBERS + ENGINES + (tiles[0], (1, 2), np.zeros(3), nl.arange(4)))  # noqa
    kinds = {
        "op": FUNCTIONS if f in (nisa.activation, nisa.activation_reduce) else OPS,
        "op0": OPS, "op1": OPS,
        "engine": ENGINES, "scale": NUMBERS,
        "reverse0": (True, False, 1), "reverse1": (False, False, None),
        "name": (None, None, "a name"), "dtype": (None, nl.float32, np.float32, "bfloat16", [1]),
        "mask": (None, None, nl.arange(64)[:, None] < 64, nl.arange(64)[:, None] < 9, True),
        "reduce_cmd": (nisa.reduce_cmd.idle, nisa.reduce_cmd.reset_reduce, None),
        "reduce_op": (nl.add, nl.maximum, None, "max", [1]), "cmp_op": OPS, "accumulate": SUMS,
        "axis": (1, [1], -1, (1,), [1, 2], 2, 0, None, "x"), "pattern": PATTERNS,
        "offset": (0, 3, -5, 1 << 40, 1.5), "channel_multiplier": (0, 1, -2, True, 1 << 33),
        "fill": NUMBERS, "value": NUMBERS, "initial": NUMBERS, "on_false": NUMBERS,
        "on_false_value": NUMBERS, "reduce_init": (None,) + NUMBERS}
    if name == "reduce_res":
        return pick((tiles[3], tiles[4], None, tiles[0], 1))
    if name == "predicate":
        return pick([t for t in tiles if t.dtype.name == "uint8"] + tiles[:2])
    if f is nisa.nc_matmul and name in ("dst", "moving", "stationary") and rnd.random() < 0.9:
        kind = 2 if name == "dst" else 1
        of = [t for t in tiles if t.memory == kind and t.ndim == 2 and t.shape[1] > 1] or tiles
        tile = rnd.choice(of)
        return tile[0:40] if name == "dst" and tile.shape[0] > 40 else tile
    if name in FLAGS:
        return pick((False, True, None, 1))
    if not tame and rnd.random() < 0.1:
        return odd()
    if name in kinds:
        return pick(kinds[name])
    if name in ("operand0", "operand1", "y", "bias") and rnd.random() < 0.6 and \
            (f, name) != (nisa.scalar_tensor_tensor, "operand1"):
        return pick(NUMBERS)
    if name in ("src", "dst") and of_hbm:
        return pick(of_hbm)
    columns = [t for t in tiles if t.shape == (64, 1)]
    tile = pick(columns if name in ("operand0", "operand1", "bias") and tame and
                f is not nisa.scalar_tensor_tensor else tiles[:8])
    if tile.ndim != 2 or rnd.random() < 0.8:
        return tile
    if tame and tile.shape[0] > 32:
        return tile[rnd.choice((16, 32)):64]
    return tile[0:pick((32, 64)), 0:1]


OPTIONAL = "mask", "name", "dtype", "engine", "reverse0", "reverse1", "scale", "bias", \
    "reduce_cmd", "reduce_op", "reduce_res", "priority", "oob_mode", "dge_mode", "dst_rmw_op", \
    "unique_indices", "keepdims", "reduce_res_negate", "reverse_pred", "is_transpose", \
    "is_stationary_onezero", "is_moving_onezero", "accumulate", "tile_position", "tile_size", \
    "perf_mode", "reduce_init", "offset", "shape", "expr", "pred"


def one(rnd, tiles, of_hbm, wrap, line):
    """A call from a line of its own, and what is done with its result."""
    f, tame = rnd.choice(OF_ISA if rnd.random() < 0.6 else CALLS), rnd.random() < 0.75
    names = [n for n in inspect.signature(f).parameters
             if n not in OPTIONAL or rnd.random() < (0.1 if tame else 0.25) or
             (n == "reduce_op" and f is nisa.tensor_scalar_reduce)]
    if rnd.random() < 0.4 and f not in (nl.store, nisa.dma_copy, nisa.nc_matmul):
        names = [n for n in names if n != "dst"]
    if rnd.random() < 0.5 and f is nisa.tensor_scalar:
        names = [n for n in names if n not in ("op1", "operand1")]
    memory = of_hbm if f in (nl.load, nl.store, nisa.dma_copy) and rnd.random() < 0.9 else ()
    given = {n: value(rnd, f, n, tiles, memory, tame) for n in names}
    if f is nisa.dma_copy and rnd.random() < 0.5:
        given["dst"] = rnd.choice(tiles)
    n = rnd.randrange(3) if rnd.random() < 0.2 else 0
    first = [given.pop(name) for name in list(given)[:n]]
    into = rnd.choice(tiles)
    made = LINES[line](wrap(f), first, given)
    if made is not None and hasattr(made, "shape"):
        if made.shape == into.shape and rnd.random() < 0.6:
            into[...] = made
        else:
            tiles.append(made)


def build(seed, wrap, older):
    """The bytes of a kernel of some calls and what they said, with each function wrapped."""
    rnd, said = random.Random(seed), []

    def kernel(a, b):
        c = nl.ndarray((64, 40), dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray(s, rnd.choice(TYPES), buffer=nl.psum if rnd.random() < 0.2 else nl.sbuf)
                 for s in SHAPES]
        tiles.append(nl.ndarray((64, 40), nl.float32, buffer=nl.psum))
        for t in rnd.sample(tiles, rnd.choice((2, len(tiles)))):  # others are declared by calls
            nisa.memset(dst=t, value=rnd.choice((0, 1)))
        state = rnd.getstate()
        for _ in range(2):  # tiles of a place that has made some before
            rnd.setstate(state)
            for line in range(24):
                try:
                    one(rnd, tiles, (a, b, c), wrap, line)
                except Exception as error:
                    said.append((type(error).__name__, str(error)))
        return c
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            built = launch.build(kernel, (data(64, 40), data(64, 5, 8)), {}, "trn2", older=older)
        said += sorted(str(w.message) for w in told)
        return built.program.bytes(), said
    except Exception as error:
        return type(error).__name__, str(error), said


class Calls(unittest.TestCase):
    def test_there_are_some(self):
        self.assertGreater(len(CALLS), 40)

    def test_any_calls(self):
        right = 0
        for seed in range(FIRST, FIRST + ROUNDS):
            older = seed % 7 == 0
            made = build(seed, lambda f: f, older)
            self.assertEqual(made, build(seed, inspect.unwrap, older), "seed %d" % seed)
            right += len(made) == 2
        self.assertGreater(right, ROUNDS // 8)

    def test_it_is_a_function(self):
        f = nisa.tensor_scalar
        self.assertTrue(inspect.isroutine(f))
        self.assertEqual(list(inspect.signature(f).parameters)[:3], ["dst", "data", "op0"])
        self.assertEqual((f.__name__, f.__module__), ("tensor_scalar", "nki.isa._elementwise"))
        with self.assertRaisesRegex(TypeError, r"^tensor_scalar\(\) got an unexpected keyword"):
            f(what=1)

    def test_wrong_ones_are_refused(self):
        def f(dst, src=None):
            pass
        def field(kind, argument, codes=None, word=0):
            return kind, argument, codes, word, False
        view, word = field(_soma.VIEW, 0), field(_soma.WORD, -1)
        right = [f, ("dst", "src"), (..., None), 1, -1, (view, word), {}, {}, (-1, -1, -1, -1), 0,
                 (-1, -1, -1, -1)]
        _soma.Call(*right)
        for i, wrong in ((1, ()), (1, ("dst",)), (1, 3), (2, (None,)), (3, 1 << 80), (3, None),
                         (5, ()), (5, (word, word)), (5, (view,)), (5, (view, 3)),
                         (5, (view,) * 30), (5, (view, field(99, 0))), (6, None), (7, []),
                         (5, (view, field(_soma.VIEW, 7))), (5, (view, field(_soma.CODE, 1, 3))),
                         (5, (view, field(_soma.IMMEDIATE, -1))), (5, (view, view[:4])),
                         (5, (view, field(_soma.IMMEDIATE, 1))), (8, (2, -1, -1, -1)),
                         (5, (view, field(_soma.IF_CODE, 1, {}))),
                         (5, (view, field(_soma.ONLY, 1))),
                         (5, (view, word, field(_soma.AXES, 1))),
                         (8, (-2, 0, 0, 0)), (8, ()), (9, _soma.STORES), (9, "x"),
                         (9, _soma.PREDICATE), (9, _soma.APART), (9, _soma.NO_ZEROS),
                         (9, _soma.INTO | _soma.MATMUL), (10, (0, 0, 2, -1)), (10, (0, 0, 0, -2)),
                         (10, (0, 0, 0)), (10, None)):
            given = list(right)
            given[i] = wrong
            with self.assertRaises(Exception, msg=(i, wrong)):
                _soma.Call(*given)
        with self.assertRaises(TypeError):
            _soma.Call()


if __name__ == "__main__":
    unittest.main()
