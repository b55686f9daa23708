"""Random sequences of calls give what NumPy gives, or are refused: tiles, views of them, names for
both, sums in PSUM, index objects, masks, loops at run time; calls of the old and the new style.

One generator makes a sequence as data; it is then run twice, on NumPy's arrays and in a kernel.
Loops at run time are in random_loops.py. `SOMA_RANDOM=100000 SOMA_FIRST=0` run that many, from that
seed (`make nki-random`), and print which features and pairs of features agreed."""
import itertools
import os
import random
import sys
import unittest

import numpy as np
import random_loops
from helper import KernelCase

import nki
import nki.isa as nisa
import nki.language as nl
from soma.errors import KernelError, SomaError

P, N = 64, 48
ROUNDS = int(os.environ.get("SOMA_RANDOM", "150"))
FIRST = int(os.environ.get("SOMA_FIRST", "0"))
TYPES = {"float32": nl.float32, "bfloat16": nl.bfloat16, "int32": nl.int32}
BINARY = {"add": np.add, "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum,
          "greater": np.greater, "equal": np.equal}
UNARY = {"relu": lambda x: np.maximum(x, 0), "abs": np.abs, "copy": np.copy, "square": np.square}
REDUCE = {"sum": np.sum, "max": np.max, "min": np.min}


def rounded(x, kind):
    """Values as a type holds them. Whole numbers stay below what int32 and float32 hold."""
    x = np.asarray(x, np.float32)
    if kind == "bfloat16":
        u = x.view(np.uint32).astype(np.uint64)
        return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return x


class Sequence(random_loops.Steps):
    """A random sequence: `steps`, each a tuple that begins with the name of a method of Model and
    of Tiles. Operands are views (variable, row, column, column step, shape) or numbers."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.kinds = ["float32", "float32", "bfloat16", "int32"]
        self.shapes = [(P, N)] * 4
        self.steps = []
        makers = [self.named, self.named, self.into, self.into, self.twice, self.alias, self.part,
                  self.inplace, self.inplace, self.fill, self.move, self.reduce, self.where,
                  self.isa, self.scalars, self.masked, self.indices, self.product, self.turned,
                  self.hbm, self.once_more, self.cast, self.row, self.activated, self.shaped,
                  self.rounds, self.rounds, self.rounds, self.rounds, self.own_sum]
        self.begin_loops()
        for _ in range(self.rnd.randrange(1, 12)):
            self.rnd.choice(makers)()

    # What steps are made of.

    def shape(self):
        return self.rnd.choice((64, 32, 32, 16, 7)), self.rnd.choice((48, 24, 12, 5, 1))

    def view(self, shape, var=None):
        """A view of this shape, of a variable that is large enough."""
        fits = [i for i, s in enumerate(self.shapes) if s[0] >= shape[0] and s[1] >= shape[1]]
        v = self.rnd.choice(fits) if var is None else var
        rows, columns = self.shapes[v]
        by = self.rnd.choice((1, 1, 1, 2)) if columns >= 2 * shape[1] else 1
        start = self.rnd.choice((0, 0, 32)) if self.rnd.randrange(60) else 3  # 3: for DMA alone
        column = self.rnd.randrange(columns - (shape[1] - 1) * by)
        return v, start if start + shape[0] <= rows else 0, column, by, shape

    def operand(self, shape):
        """A view, a number, a column or a row to broadcast."""
        pick = self.rnd.randrange(8)
        if pick == 0:
            return self.rnd.randrange(-3, 4)
        if pick == 1:
            return self.view((shape[0], 1))
        if pick == 2:
            return self.view((1, shape[1]))
        return self.view(shape)

    def made(self, shape, kind="float32"):
        """The number of a new variable."""
        self.shapes.append(shape)
        self.kinds.append(kind)
        return len(self.shapes) - 1

    def op(self):
        return self.rnd.choice(sorted(BINARY))

    def add(self, *step):
        self.steps.append(step)

    # Steps.

    def named(self):
        s = self.shape()
        a, b = self.view(s), self.operand(s)
        self.add("named", self.made(s), self.op(), a, b)

    def into(self):
        s = self.shape()
        self.add("into", self.view(s), self.op(), self.view(s), self.operand(s))

    def twice(self):
        s = self.shape()
        self.add("twice", self.view(s), self.view(s), self.op(), self.view(s), self.operand(s),
                 self.rnd.randrange(2))

    def alias(self):
        a = self.rnd.randrange(len(self.shapes))
        self.add("alias", self.made(self.shapes[a], self.kinds[a]), a)

    def part(self):
        s = self.shape()
        v = self.view(s)
        self.add("part", self.made(s, self.kinds[v[0]]), v)

    def inplace(self):
        s = self.shape()
        self.add("inplace", self.view(s), self.rnd.choice(("add", "subtract")), self.operand(s))

    def fill(self):
        self.add("fill", self.view(self.shape()), self.rnd.randrange(-3, 4))

    def move(self):
        s = self.shape()
        self.add("move", self.view(s), self.view(s), self.rnd.randrange(3))

    def reduce(self):
        s = self.shape()
        if s[1] > 1:
            self.add("reduce", self.view((s[0], 1)), self.rnd.choice(sorted(REDUCE)), self.view(s))

    def where(self):
        s = self.shape()
        condition, a, b = self.view(s), self.view(s), self.operand(s)
        self.add("where", self.made(s), condition, a, b)

    def isa(self):
        s = self.shape()
        self.add("isa", self.view(s), self.op(), self.view(s), self.view(s))

    def scalars(self):
        s = self.shape()
        self.add("scalars", self.view(s), self.view(s), self.op(), self.rnd.randrange(-3, 4),
                 self.op(), self.rnd.randrange(-3, 4), self.rnd.randrange(4))

    def activated(self):
        s = self.shape()
        self.add("activated", self.view(s), self.rnd.choice(("relu", "abs", "copy")),
                 self.view(s), self.rnd.choice((1.0, -2.0)))

    def masked(self):
        s = self.shape()
        v = self.view(s)
        self.add("masked", self.view(s), v, self.rnd.randrange(1, s[0] + 1),
                 self.rnd.randrange(1, s[1] + 1), self.rnd.randrange(3))

    def indices(self):
        s = self.shape()
        self.add("indices", self.view(s), self.view(s), self.rnd.randrange(2))

    def product(self):
        m, n = self.rnd.choice((16, 32, 48)), self.rnd.choice((8, 48))
        a, b = self.view((64, m)), self.view((64, n))
        self.add("product", self.made((m, n)), a, b, self.rnd.randrange(4))

    def turned(self):
        s = self.rnd.choice(((32, 32), (32, 24), (16, 5), (48, 32)))
        v = self.view(s)
        self.add("turned", self.made(s[::-1]), v)

    def hbm(self):
        s = self.shape()
        self.add("hbm", self.view(s), self.view(s), self.rnd.randrange(20),
                 self.rnd.choice((1, 2)))

    def once_more(self):
        s = self.shape()
        self.add("once_more", self.view(s), self.view(s), self.rnd.randrange(1, 4))

    def cast(self):
        s = self.shape()
        v, kind = self.view(s), self.rnd.choice(sorted(TYPES))
        self.add("cast", self.made(s, kind), v, kind)

    def row(self):
        s = self.shape()
        v = self.view((1, s[1]))
        self.add("row", self.made(s, self.kinds[v[0]]), v, s)

    def shaped(self):
        s = (self.shape()[0], 24)
        self.add("shaped", self.view(s), self.view(s), self.rnd.choice(((2, 12), (4, 6))))


def limited(x):
    return np.clip(x, -8, 8)


class Model(random_loops.Arrays):
    """Steps on NumPy's arrays of float32, each with the type that it stands for."""

    def __init__(self, x, kinds):
        self.vars = [(rounded(a, k).copy(), k) for a, k in zip(x, kinds)]
        self.begin_loops(x)

    rounded, limited = staticmethod(rounded), staticmethod(limited)

    def at(self, v):
        if not isinstance(v, tuple):
            return np.float32(v)
        array, (rows, columns) = self.vars[v[0]][0], v[4]
        return array[v[1]:v[1] + rows, v[2]:v[2] + (columns - 1) * v[3] + 1:v[3]]

    def set(self, v, value):
        self.at(v)[...] = rounded(value, self.vars[v[0]][1])

    def new(self, value, kind="float32"):
        self.vars.append((rounded(value, kind).copy(), kind))

    def named(self, _, op, a, b):
        self.new(BINARY[op](self.at(a), self.at(b)))

    def into(self, d, op, a, b):
        self.set(d, BINARY[op](self.at(a), self.at(b)))

    def twice(self, d, e, op, a, b, again):
        value = BINARY[op](self.at(a), self.at(b)).astype(np.float32)
        self.set(d, value)
        self.set(e, value + 1 if again else value)

    def alias(self, _, a):
        self.vars.append(self.vars[a])

    def part(self, _, v):
        self.vars.append((self.at(v), self.vars[v[0]][1]))

    def inplace(self, d, op, b):
        self.set(d, BINARY[op](self.at(d), self.at(b)))

    def fill(self, d, k):
        self.set(d, np.full(d[4], k))

    def move(self, d, a, how):
        self.set(d, self.at(a).copy())

    def reduce(self, d, op, a):
        self.set(d, REDUCE[op](limited(self.at(a)), axis=1, keepdims=True))

    def where(self, _, c, a, b):
        self.new(np.where(self.at(c) > 0, self.at(a), self.at(b)))

    def isa(self, d, op, a, b):
        self.set(d, BINARY[op](self.at(a), self.at(b)))

    def scalars(self, d, a, op0, k0, op1, k1, reverse):
        def apply(op, x, k, turned):
            return BINARY[op](k, x) if turned else BINARY[op](x, k)
        first = apply(op0, self.at(a), np.float32(k0), reverse & 1).astype(np.float32)
        self.set(d, apply(op1, first, np.float32(k1), reverse & 2))

    def activated(self, d, op, a, scale):
        self.set(d, UNARY[op](self.at(a) * np.float32(scale)))

    def masked(self, d, a, rows, columns, how):
        i, j = np.mgrid[0:d[4][0], 0:d[4][1]]
        keep = (i <= j if how == 2 else (i < rows) & (j < columns))
        old, value = self.at(d).copy(), self.at(a).copy()
        self.set(d, np.where(keep, value, 0 if how == 2 else old))

    def indices(self, d, a, how):
        self.set(d, self.at(a).copy())

    def product(self, _, a, b, how):
        a, b = limited(self.at(a)), limited(self.at(b))
        sums = a.T @ b
        self.new(sums + sums if how == 2 else sums)

    def turned(self, _, v):
        self.new(self.at(v).T)

    def hbm(self, d, a, row, step):
        self.set(d, self.at(a).copy())

    def once_more(self, d, a, n):
        for _ in range(n):
            self.set(d, np.add(self.at(d), self.at(a)))

    def cast(self, _, v, kind):
        self.new(self.at(v), kind)

    def row(self, _, v, shape):
        self.new(np.broadcast_to(self.at(v), shape), self.vars[v[0]][1])

    def shaped(self, d, a, inner):
        self.set(d, self.at(a).reshape((-1,) + inner)[:, ::-1].reshape(-1, 24))


class Tiles(random_loops.Calls):
    """The same steps in a kernel."""

    def __init__(self, tiles, x):
        self.vars = list(tiles)
        self.begin_loops(x)

    @staticmethod
    def key(v):
        rows, columns = v[4]
        return slice(v[1], v[1] + rows), slice(v[2], v[2] + (columns - 1) * v[3] + 1, v[3])

    def at(self, v):
        return self.vars[v[0]][self.key(v)] if isinstance(v, tuple) else float(v)

    def set(self, v, value):
        self.vars[v[0]][self.key(v)] = value

    def call(self, op, a, b):
        return getattr(nl, op)(self.at(a), self.at(b), dtype=nl.float32)

    def named(self, _, op, a, b):
        self.vars.append(self.call(op, a, b))

    def into(self, d, op, a, b):
        self.set(d, self.call(op, a, b))

    def twice(self, d, e, op, a, b, again):
        value = self.call(op, a, b)
        self.set(d, value)
        self.set(e, nl.add(value, 1.0) if again else value)

    def alias(self, _, a):
        self.vars.append(self.vars[a])

    def part(self, _, v):
        self.vars.append(self.at(v))

    def inplace(self, d, op, b):
        b, k = self.at(b), self.key(d)
        if op == "add":
            self.vars[d[0]][k] += b
        else:
            self.vars[d[0]][k] -= b

    def fill(self, d, k):
        self.set(d, k)

    def move(self, d, a, how):
        if how == 0:
            self.set(d, self.at(a))
        elif how == 1:
            self.set(d, nl.copy(self.at(a)))
        else:
            nisa.tensor_copy(dst=self.at(d), src=nisa.tensor_copy(self.at(a)))

    def reduce(self, d, op, a):
        self.set(d, getattr(nl, op)(self.limited(a), axis=1))

    def limited(self, v):
        return nl.minimum(nl.maximum(self.at(v), -8.0, dtype=nl.float32), 8.0)

    def where(self, _, c, a, b):
        self.vars.append(nl.where(nl.greater(self.at(c), 0.0), self.at(a), self.at(b),
                                  dtype=nl.float32))

    def isa(self, d, op, a, b):
        nisa.tensor_tensor(dst=self.at(d), data1=self.at(a), data2=self.at(b), op=getattr(nl, op))

    def scalars(self, d, a, op0, k0, op1, k1, reverse):
        nisa.tensor_scalar(dst=self.at(d), data=self.at(a), op0=getattr(nl, op0),
                           operand0=float(k0), reverse0=bool(reverse & 1), op1=getattr(nl, op1),
                           operand1=float(k1), reverse1=bool(reverse & 2))

    def activated(self, d, op, a, scale):
        nisa.activation(dst=self.at(d), op=getattr(nl, op), data=self.at(a), scale=scale)

    def masked(self, d, a, rows, columns, how):
        i, j = nl.mgrid[0:d[4][0], 0:d[4][1]]
        value = nl.copy(self.at(a))
        if how == 2:
            self.set(d, nisa.affine_select(pred=(i <= j), on_true_tile=value, on_false_value=0))
        elif how == 1:
            nisa.tensor_copy(dst=self.at(d), src=value, mask=(i < rows) & (j < columns))
        else:
            part = self.at(d)
            part[0:rows, 0:columns] = value[0:rows, 0:columns]

    def indices(self, d, a, how):
        value = nl.copy(self.indexed(a))
        if how:
            v, r, c, by, shape = d
            i, j = nl.mgrid[0:shape[0], 0:shape[1]]
            self.vars[v][r + i, c + by * j] = value
        else:
            self.set(d, value)

    def indexed(self, view):
        v, r, c, by, shape = view
        i, j = nl.arange(shape[0])[:, None], nl.arange(shape[1])[None, :]
        return self.vars[v][i + r, by * j + c]

    def product(self, _, a, b, how):
        a, b = self.limited(a), self.limited(b)
        shape = (a.shape[1], b.shape[1])
        if how == 3:
            self.vars.append(nl.copy(nl.matmul(a, b, transpose_x=True)))
            return
        sums = (nl.ndarray if how == 1 else nl.zeros)(shape, nl.float32, buffer=nl.psum)
        if how == 1:
            nisa.nc_matmul(dst=sums, stationary=a[0:32], moving=b[0:32], accumulate=False)
            nisa.nc_matmul(dst=sums, stationary=a[32:P], moving=b[32:P], accumulate=True)
        else:
            one = nisa.nc_matmul(a, b)
            sums += one
            if how == 2:
                sums += one
        self.vars.append(nl.copy(sums))

    def turned(self, _, v):
        self.vars.append(nl.copy(nl.transpose(self.at(v)), dtype=nl.float32))

    def hbm(self, d, a, row, step):
        rows, columns = d[4]
        far = nl.ndarray((100, 2 * N), nl.float32, buffer=nl.private_hbm)
        place = far[row:row + rows, 1:1 + (columns - 1) * step + 1:step]
        nl.store(place, self.at(a))
        self.set(d, nl.load(place))

    def once_more(self, d, a, n):
        into, value, k = self.vars[d[0]], self.at(a), self.key(d)
        for _ in nl.dynamic_range(n):
            into[k] += value

    def cast(self, _, v, kind):
        self.vars.append(nl.copy(self.at(v), dtype=TYPES[kind]))

    def row(self, _, v, shape):
        self.vars.append(nl.copy(nl.broadcast_to(self.at(v), shape)))

    def shaped(self, d, a, inner):
        value = nl.copy(self.at(a))
        cube = value.reshape((value.shape[0],) + inner)
        into = nl.ndarray((value.shape[0],) + inner, nl.float32, buffer=nl.sbuf)
        for i in range(inner[0]):
            into[:, i, :] = cube[:, inner[0] - 1 - i, :]
        self.set(d, into.reshape(value.shape))


def kernel_of(sequence):
    @nki.jit
    def kernel(x):
        tiles = []
        for i in range(4):
            tiles.append(nl.ndarray((P, N), TYPES[sequence.kinds[i]], buffer=nl.sbuf))
            tiles[i][...] = nl.load(x[i])
        run = Tiles(tiles, x)
        for step in sequence.steps:
            getattr(run, step[0])(*step[1:])
        out = []
        for t in run.vars:
            out.append(nl.ndarray(t.shape, nl.float32, buffer=nl.shared_hbm))
            nl.store(out[-1], t)
        return tuple(out)
    return kernel


class Random(KernelCase):
    def one(self, seed):
        """Whether the sequence of a seed was run; else it was refused."""
        sequence = Sequence(seed)
        x = np.random.default_rng(seed).integers(-5, 6, (4, P, N)).astype(np.float32)
        model = Model(x, sequence.kinds)
        for step in sequence.steps:
            getattr(model, step[0])(*step[1:])
        kernel = kernel_of(sequence)
        try:
            got = kernel(x)
        except KernelError as error:
            self.refused.setdefault(error.text[:60], []).append(seed)
            return False
        except SomaError:
            raise
        for i, (g, (want, _)) in enumerate(zip(got, model.vars)):
            np.testing.assert_array_equal(g, want, "variable %d" % i)
        if seed % 10 == 0:
            self.clean(kernel, x)
        found = random_loops.features(sequence.steps)
        for a, b in itertools.product(found, found):
            self.counts[a, b] = self.counts.get((a, b), 0) + 1
        return True

    def test_random_sequences_are_numpys(self):
        self.refused, self.counts, ran = {}, {}, 0
        for seed in range(FIRST, FIRST + ROUNDS):
            with self.subTest("seed %d: %s" % (seed, Sequence(seed).steps)):
                ran += self.one(seed)
            if seed % 1000 == 999:
                print("%d, %d of them ran" % (seed + 1, ran), file=sys.stderr, flush=True)
        self.assertGreater(ran, ROUNDS // 2, self.refused)
        if os.environ.get("SOMA_REFUSED"):
            print("%d of %d sequences agree with NumPy" % (ran, ROUNDS))
            print(random_loops.table(self.counts))
            for text, seeds in sorted(self.refused.items(), key=lambda item: -len(item[1])):
                print("%6d  %s (seed %d)" % (len(seeds), text, seeds[0]))


if __name__ == "__main__":
    unittest.main()
