"""Random sequences of calls on views: what test_random_views.py runs on NumPy's arrays and in a
kernel. A step is (features, function of NumPy's variables, function of the kernel's)."""
import random

import numpy as np

import nki.isa as nisa
import nki.language as nl

P, N = 64, 48
TYPES = {"float32": nl.float32, "bfloat16": nl.bfloat16, "int32": nl.int32}
BINARY = {"add": np.add, "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum,
          "greater": np.greater, "equal": np.equal}


def rounded(x, kind):
    """Values as a type holds them. Whole numbers stay below what int32 and float32 hold."""
    x = np.asarray(x, np.float32)
    if kind == "bfloat16":
        u = x.view(np.uint32).astype(np.uint64)
        return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return x


class View:
    """A view of a variable as data: `ops` make it from the whole, of an array or of a tile."""

    def __init__(self, var, array):
        self.var, self.ops, self.features = var, [], set()
        self.whole = self.array = array

    shape = property(lambda self: self.array.shape)

    def apply(self, feature, op, *args):
        """Adds an operation if NumPy's array stays a view."""
        made = NUMPY[op](self.array, *args)
        if made.size and (made.base is not None or made is self.array) and \
                np.shares_memory(made, self.array):
            self.array = made
            self.ops.append((op, args))
            self.features.add(feature)
        return self

    def writable(self):
        """Whether its elements are all different ones."""
        places = self.of(NUMPY, np.arange(self.whole.size, dtype=np.float32).reshape(
            self.whole.shape))
        return "broadcast" not in self.features and len(np.unique(places)) == places.size

    def of(self, table, x):
        for op, args in self.ops:
            x = table[op](x, *args)
        return x


def _strided(a, pattern, offset):
    return np.lib.stride_tricks.as_strided(a.reshape(-1)[offset:], [n for _, n in pattern],
                                           [4 * s for s, _ in pattern])


def _indexed(a, starts, steps, counts):
    return a[tuple(slice(s, s + (n - 1) * k + 1, k) for s, k, n in zip(starts, steps, counts))]


def _by_indices(t, starts, steps, counts):
    grid = nl.mgrid[tuple(slice(0, n) for n in counts)]
    return t[tuple(s + k * g for s, k, g in zip(starts, steps, grid))]


NUMPY = {"slice": lambda a, *key: a[key], "permute": lambda a, *d: a.transpose(d),
         "reshape": lambda a, *s: a.reshape(s), "expand": np.expand_dims, "ap": _strided,
         "broadcast": lambda a, d, n: np.broadcast_to(a, a.shape[:d] + (n,) + a.shape[d + 1:]),
         "select": lambda a, d, k: a[(slice(None),) * d + (k,)], "index": _indexed,
         "split": lambda a, d, s: a.reshape(a.shape[:d] + s + a.shape[d + 1:]),
         "past": lambda a, d, s, n: a[(slice(None),) * d + (slice(s, s + n),)]}
TILES = {"slice": lambda t, *key: t[key], "permute": lambda t, *d: t.permute(d),
         "reshape": lambda t, *s: t.reshape(s), "expand": lambda t, d: t.expand_dim(d),
         "ap": lambda t, pattern, offset: t.ap(pattern, offset=offset),
         "broadcast": lambda t, d, n: t.broadcast(d, n), "index": _by_indices,
         "select": lambda t, d, k: t.select(d, k), "split": lambda t, d, s: t.reshape_dim(d, s),
         "past": lambda t, d, s, n: t[(slice(None),) * d + (slice(s, s + n),)]}

MASKS = {  # of the indices of a tile's axes, its shape and three numbers in [0, 1)
    "rows": lambda g, s, a, b, c: g[0] < 1 + int(a * s[0]),
    "box": lambda g, s, a, b, c: (g[0] < 1 + int(a * s[0])) & (g[-1] < 1 + int(b * s[-1])) &
    (g[-1] >= int(c * b * s[-1])),
    "linear": lambda g, s, a, b, c: g[0] * s[-1] + g[-1] < 1 + int(a * s[0] * s[-1]),
    "triangle": lambda g, s, a, b, c: g[0] + int(5 * a) >= g[-1],
    "band": lambda g, s, a, b, c: (g[0] >= g[-1]) & (g[-1] + 3 + int(9 * a) > g[0]),
    "true over axes": lambda g, s, a, b, c: g[0] + g[-1] < s[0] + s[-1],
    "nothing": lambda g, s, a, b, c: (g[0] < s[0]) & (g[0] + g[-1] > 1000)}


class Mask:
    """A mask of tiles of one shape, of NumPy's indices or the kernel's; None leaves all."""

    def __init__(self, rnd, shape, often=0.5):
        self.name = rnd.choice(sorted(MASKS)) if rnd.random() < often else None
        self.shape, self.numbers = shape, [rnd.random() for _ in range(3)]

    def keep(self):
        if self.name is None:
            return np.ones(self.shape, bool)
        found = MASKS[self.name](np.indices(self.shape), self.shape, *self.numbers)
        return np.broadcast_to(found, self.shape)

    def tile(self):
        grid = nl.mgrid[tuple(slice(0, n) for n in self.shape)]
        return {} if self.name is None else {"mask": MASKS[self.name](grid, self.shape,
                                                                      *self.numbers)}

    features = property(lambda self: {"mask: " + self.name} if self.name else set())


class Sequence:
    """A random sequence: `steps`, and `kinds` of the four tiles that it begins with."""

    def __init__(self, seed):
        self.rnd = random.Random(seed)
        self.kinds = ["float32", "float32", "bfloat16", "int32"]
        self.whole = [np.zeros((P, N), np.float32) for _ in self.kinds]
        self.steps = []
        makers = [self.binary, self.binary, self.binary, self.into, self.into, self.assign,
                  self.assign, self.reduce, self.turn, self.turn, self.psum, self.select,
                  self.transfer, self.transfer, self.gather, self.product, self.shaped, self.copy,
                  self.subscript]
        for _ in range(self.rnd.randrange(1, 8)):
            self.rnd.choice(makers)()

    # Parts of steps.

    def chance(self, p=0.5):
        return self.rnd.random() < p

    def view(self, var=None, write=False, steps=3):
        """A view by up to three operations."""
        var = self.rnd.randrange(len(self.whole)) if var is None else var
        v = View(var, self.whole[var])
        for _ in range(self.rnd.randrange(steps + 1)):
            self.rnd.choice((self._slice, self._slice, self._permute, self._reshape, self._index,
                             self._ap, self._split, self._broadcast, self._select))(v)
        if write and not v.writable():
            v = View(v.var, self.whole[v.var])
        return v

    def _slice(self, v):
        key = []
        for d, n in enumerate(v.shape):
            start = self.rnd.choice((0, 0, 32)) if d == 0 else self.rnd.randrange(n)
            start = start if start < n else 0
            count = self.rnd.randrange(1, n - start + 1)
            step = 1 if d == 0 else self.rnd.choice((1, 1, 2, 3))
            key.append(slice(start, start + count, step))
        v.apply("slice", "slice", *key)

    def _permute(self, v):
        free = list(range(1, v.array.ndim))
        self.rnd.shuffle(free)
        if len(free) > 1:
            v.apply("permute", "permute", 0, *free)

    def _reshape(self, v):
        n = v.array.size // v.shape[0]
        parts = [k for k in range(2, n) if n % k == 0]
        k = self.rnd.choice(parts) if parts and self.chance(0.7) else n
        v.apply("reshape", "reshape", v.shape[0], *((k, n // k) if k != n else (n,)))

    def _split(self, v):
        d = self.rnd.randrange(1, v.array.ndim)
        parts = [k for k in range(2, v.shape[d]) if v.shape[d] % k == 0]
        if parts and v.array.ndim < 4:
            k = self.rnd.choice(parts)
            v.apply("reshape", "split", d, (k, v.shape[d] // k))

    def _index(self, v):
        if v.array.ndim > 3:
            return
        counts = [self.rnd.randrange(1, n + 1) for n in v.shape]
        steps = [1] + [self.rnd.choice((1, 2)) if n > 2 * c else 1
                       for n, c in zip(v.shape[1:], counts[1:])]
        starts = [0] + [self.rnd.randrange(n - (c - 1) * k)
                        for n, c, k in zip(v.shape[1:], counts[1:], steps[1:])]
        v.apply("index objects", "index", starts, steps, counts)

    def _ap(self, v):
        if v.ops:
            return
        row = v.array.size // v.shape[0]
        a, b = self.rnd.choice(((1, row), (2, row // 2), (4, row // 4)))
        pattern = [[row, self.rnd.randrange(1, v.shape[0] + 1)], [1, a], [a, b]]
        if b and self.chance():
            pattern = [pattern[0], [self.rnd.choice((0, 1, 2)), max(row // 3, 1)]]
        if all(n for _, n in pattern):
            v.apply("ap", "ap", pattern, 0)

    def _broadcast(self, v):
        if v.array.ndim < 4:
            d = self.rnd.randrange(1, v.array.ndim + 1)
            v.apply("broadcast", "expand", d).apply("broadcast", "broadcast", d,
                                                    self.rnd.randrange(1, 4))

    def _select(self, v):
        if v.array.ndim > 2:
            d = self.rnd.randrange(1, v.array.ndim)
            v.apply("select", "select", d, self.rnd.randrange(v.shape[d]))

    def like(self, shape, how=None):
        """An operand for a tile of that shape: (features, of NumPy's variables, of tiles): of the
        same shape, a column, a row, a number, or of other dimensions with as many elements."""
        how = how or self.rnd.choice(("same", "same", "column", "row", "number", "flat"))
        if how == "number":
            k = self.rnd.randrange(-3, 4)
            return {"number"}, lambda m: np.float32(k), lambda t: float(k)
        size = int(np.prod(shape[1:]))
        free = {"same": size, "column": 1, "row": size, "flat": size}[how]
        rows = 1 if how == "row" else shape[0]
        fits = [i for i, w in enumerate(self.whole) if w.shape[0] >= rows and w.ndim == 2 and
                w.shape[1] >= free]
        if not fits:
            return self.like(shape, "number")
        var = self.rnd.choice(fits)
        v = View(var, self.whole[var])
        at = self.rnd.randrange(v.shape[1] - free + 1)
        v.apply("slice", "slice", slice(0, rows), slice(at, at + free))
        if how in ("same", "row") and len(shape) > 2:
            v.apply("reshape", "reshape", rows, *shape[1:])
        name = how if how != "flat" or len(shape) > 2 else "same"
        if how == "column":
            name = "column of more dimensions" if len(shape) > 2 else name
            return {name}, lambda m: v.of(NUMPY, m.vars[v.var]).reshape(
                (rows,) + (1,) * (len(shape) - 1)), lambda t: v.of(TILES, t.vars[v.var])
        return {name}, lambda m: v.of(NUMPY, m.vars[v.var]).reshape((rows,) + shape[1:]), \
            lambda t: v.of(TILES, t.vars[v.var])

    def made(self, shape, kind="float32"):
        self.whole.append(np.zeros(shape, np.float32))
        self.kinds.append(kind)

    def add(self, features, model, tiles):
        self.steps.append((frozenset(features), model, tiles))

    # Steps.

    def binary(self):
        a, op = self.view(), self.rnd.choice(sorted(BINARY))
        f, model, tiles = self.like(a.shape)
        mask, isa = Mask(self.rnd, a.shape), self.chance(0.3) and "number" not in f and \
            "row" not in f
        turned = self.chance(0.2) and not isa

        def numpys(m):
            x, y = a.of(NUMPY, m.vars[a.var]), model(m)
            value = BINARY[op](y, x) if turned else BINARY[op](x, y)
            m.new(np.where(mask.keep(), value, 0))

        def kernels(t):
            x, y = a.of(TILES, t.vars[a.var]), tiles(t)
            x, y = (y, x) if turned else (x, y)
            if isa:
                r = nisa.tensor_tensor(x, y, op=getattr(nl, op), dtype=nl.float32, **mask.tile())
            else:
                r = getattr(nl, op)(x, y, dtype=nl.float32, **mask.tile())
            t.new(r.reshape(a.shape))
        self.made(a.shape)
        self.add(a.features | f | mask.features | {"returned", "nisa" if isa else "nl"}, numpys,
                 kernels)

    def into(self):
        d, op = self.view(write=True), self.rnd.choice(sorted(BINARY))
        (f, x, of_x), (g, y, of_y) = self.like(d.shape, "same"), self.like(d.shape, "same")
        mask = Mask(self.rnd, d.shape)

        def numpys(m):
            m.set(d, BINARY[op](x(m), y(m)), mask.keep())

        def kernels(t):
            nisa.tensor_tensor(dst=d.of(TILES, t.vars[d.var]), data1=of_x(t), data2=of_y(t),
                               op=getattr(nl, op), **mask.tile())
        if "number" not in f | g:
            self.add(d.features | f | g | mask.features | {"dst", "nisa"}, numpys, kernels)

    def assign(self):
        d = self.view(write=True)
        f, x, of_x = self.like(d.shape)
        mask, scale = Mask(self.rnd, d.shape), self.chance()

        def numpys(m):
            m.set(d, np.broadcast_to(x(m), d.shape) + scale, mask.keep())

        def kernels(t):
            value = nl.add(of_x(t), 1.0, dtype=nl.float32, **mask.tile()) if scale else \
                nl.copy(of_x(t), **mask.tile())
            t.assign(d, value)
        if "number" not in f and "row" not in f and "column of more dimensions" not in f and \
                ("column" not in f or mask.name is None):
            self.add(d.features | f | mask.features | {"assigned", "nl"}, numpys, kernels)

    def subscript(self):
        d, mask = self.view(write=True), Mask(self.rnd, self.whole[0].shape, 1)
        mask.shape = d.shape
        k = self.rnd.randrange(-3, 4)
        f, x, of_x = self.like(d.shape, "same")
        fill = self.chance() or "number" in f

        def kernels(t):
            d.of(TILES, t.vars[d.var])[mask.tile()["mask"]] = float(k) if fill else of_x(t)
        self.add(d.features | mask.features | {"subscript"} | (set() if fill else f),
                 lambda m: m.set(d, np.full(d.shape, k) if fill else x(m), mask.keep()), kernels)

    def reduce(self):
        a, op = self.view(), self.rnd.choice(("sum", "max", "min"))
        last = self.rnd.randrange(1, a.array.ndim)
        axes = tuple(range(a.array.ndim - last, a.array.ndim))
        keepdims, isa = self.chance(), self.chance(0.4)
        rows = self.rnd.choice((None, None, self.rnd.randrange(1, a.shape[0] + 1)))

        def numpys(m):
            x = np.clip(a.of(NUMPY, m.vars[a.var]), -8, 8)
            value = getattr(np, op)(x, axis=axes)
            if rows is not None:
                value[rows:] = 0
            m.new(value.reshape(a.shape[0], -1))

        def kernels(t):
            x = nl.minimum(nl.maximum(a.of(TILES, t.vars[a.var]), -8.0, dtype=nl.float32), 8.0)
            more = {} if rows is None else {"mask": nl.arange(a.shape[0])[
                (slice(None),) + (None,) * (a.array.ndim - 1)] < rows}
            if isa:
                ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
                r = nisa.tensor_reduce(ufunc, x, axes, dtype=nl.float32, keepdims=keepdims, **more)
            else:
                r = getattr(nl, op)(x, axis=axes, keepdims=keepdims, **more)
            t.new(r.reshape((a.shape[0], r.free_size)))
        self.made((a.shape[0], a.array.size // a.shape[0] //
                   int(np.prod([a.shape[i] for i in axes]))))
        self.add(a.features | {"reduction"} | ({"mask: rows"} if rows is not None else set()),
                 numpys, kernels)

    def turn(self):
        a, how = self.view(), self.rnd.choice(("vector", "tensor", "nl", "dst", "psum"))
        n, m = a.shape[0], a.array.size // a.shape[0]
        mask = Mask(self.rnd, a.shape, 0.4 if a.array.ndim == 2 else 0)
        if m > 64 or (how == "dst" and max(n, m) > 32) or self.kinds[a.var] == "int32":
            return
        if how in ("dst", "psum"):
            mask.name = None

        def kernels(t):
            x = a.of(TILES, t.vars[a.var])
            if how == "dst":
                r = nl.ndarray((m, n), x.dtype, buffer=nl.sbuf)
                nisa.nc_transpose(dst=r, data=x)
            elif how == "psum":
                into = nl.ndarray(a.shape, x.dtype, buffer=nl.psum)
                into[...] = nl.copy(x)
                r = nisa.nc_transpose(into)
            elif how == "nl":
                r = nl.transpose(x, **mask.tile())
            else:
                r = nisa.nc_transpose(x, engine=getattr(nisa.engine, how), **mask.tile())
            t.new(nl.copy(r, dtype=nl.float32))
        self.made((m, n))
        self.add(a.features | mask.features | {"transpose: " + how}, lambda v: v.new(
            np.where(mask.keep(), a.of(NUMPY, v.vars[a.var]), 0).reshape(n, m).T), kernels)

    def psum(self):
        a = self.view(steps=2)
        f, y, of_y = self.like(a.shape)
        op, mask = self.rnd.choice(sorted(BINARY)), Mask(self.rnd, a.shape, 0.3)
        if a.array.size // a.shape[0] > 512:
            return

        def kernels(t):
            x = nl.ndarray(a.shape, nl.float32, buffer=nl.psum)
            x[...] = nl.copy(a.of(TILES, t.vars[a.var]), dtype=nl.float32)
            t.new(getattr(nl, op)(x, of_y(t), dtype=nl.float32, **mask.tile()).reshape(a.shape))
        self.made(a.shape)
        self.add(a.features | f | mask.features | {"psum"}, lambda m: m.new(np.where(
            mask.keep(), BINARY[op](a.of(NUMPY, m.vars[a.var]), y(m)), 0)), kernels)

    def select(self):
        a, pred = self.view(), Mask(self.rnd, (1, 1), 1)
        pred.shape = a.shape
        pred.name = self.rnd.choice(("triangle", "band", "linear", "rows"))
        mask, there = Mask(self.rnd, a.shape, 0.3), self.chance(0.3)
        if a.array.ndim > 4 or self.kinds[a.var] == "int32" or a.array.size // a.shape[0] > 512:
            return

        def kernels(t):
            x = a.of(TILES, t.vars[a.var])
            if there:
                into = nl.ndarray(a.shape, nl.float32, buffer=nl.psum)
                into[...] = nl.copy(x, dtype=nl.float32)
                x = into
            t.new(nisa.affine_select(pred=pred.tile()["mask"], on_true_tile=x, on_false_value=-2.0,
                                     dtype=nl.float32, **mask.tile()).reshape(a.shape))
        self.made(a.shape)
        self.add(a.features | mask.features | {"affine_select"} | ({"psum"} if there else set()),
                 lambda m: m.new(np.where(mask.keep(), np.where(
                     pred.keep(), a.of(NUMPY, m.vars[a.var]), -2), 0)), kernels)

    def transfer(self):
        """A view to HBM and back, under masks, by views of HBM."""
        a, how = self.view(steps=2), self.rnd.choice(("load", "store", "both", "dma", "turned"))
        if a.array.ndim > 3 or (how == "turned" and (a.array.ndim > 2 or a.shape[1] > 128)):
            return
        mask = Mask(self.rnd, a.shape, 0.7 if how != "turned" else 0)
        n, step = a.shape[-1], self.rnd.choice((1, 2))
        lead = a.shape[:-1]

        def place(far):
            return far[..., 1:1 + (n - 1) * step + 1:step]

        def numpys(m):
            x, keep = a.of(NUMPY, m.vars[a.var]), mask.keep()
            if how == "turned":
                m.new(x.T)
                return
            m.new(np.where(keep, x, {"load": 0, "store": 5, "both": 0, "dma": 5}[how]))

        def kernels(t):
            x = nl.copy(a.of(TILES, t.vars[a.var]), dtype=nl.float32)
            far = nl.ndarray(lead + (2 * n + 4,), nl.float32, buffer=nl.private_hbm)
            there = place(far)
            if how in ("store", "dma"):
                nl.store(far, nl.full(lead + (2 * n + 4,), 5.0, nl.float32, buffer=nl.sbuf))
            if how == "dma":
                nisa.dma_copy(dst=there, src=x, **mask.tile())
            else:
                nl.store(there, x, **(mask.tile() if how in ("store", "both") else {}))
            if how == "both":
                r = nl.load(there, **mask.tile())
            elif how == "load":
                r = nl.load(there, **mask.tile())
            else:
                r = nl.load_transpose2d(there) if how == "turned" else nl.load(there)
            t.new(r.reshape(a.shape[::-1] if how == "turned" else a.shape))
        self.made(a.shape[::-1] if how == "turned" else a.shape)
        self.add(a.features | mask.features | {"hbm: " + how}, numpys, kernels)

    def gather(self):
        """Rows of HBM by an index tile, of dimension 0 or after a number."""
        a = self.view(var=self.rnd.choice((0, 1)), steps=0)
        first = self.chance()
        order = [self.rnd.randrange(32) for _ in range(self.rnd.randrange(2, 33))]

        def kernels(t):
            far = nl.ndarray((2, 32, N), nl.float32, buffer=nl.private_hbm)
            nl.store(far.reshape((P, N)), a.of(TILES, t.vars[a.var]))
            index = nl.load(nl.shared_constant(np.array(order, np.int32).reshape(-1, 1)))
            r = nl.load(far[1, index] if first else far.reshape((P, N))[index])
            t.new(nl.copy(r.reshape((len(order), N))))
        self.made((len(order), N))
        self.add({"gather", "gather of dimension 1" if first else "gather of dimension 0"},
                 lambda m: m.new(a.of(NUMPY, m.vars[a.var])[np.array(order) + 32 * first]), kernels)

    def product(self):
        """A matmul whose operands may lie in PSUM, be views, or have masks as subscripts."""
        m, n, k = self.rnd.choice((16, 32)), self.rnd.choice((8, 48)), self.rnd.choice((32, 64))
        rows = self.rnd.choice((k, k, self.rnd.randrange(1, k + 1)))
        there, by = self.chance(0.3), self.rnd.choice(("mask", "subscript"))
        a, b = (self.rnd.choice((0, 1)) for _ in range(2))

        def limited(x):
            return np.clip(x, -8, 8)

        def kernels(t):
            x, y = (nl.minimum(nl.maximum(t.vars[v][0:k, 0:c], -8.0, dtype=nl.float32), 8.0)
                    for v, c in ((a, m), (b, n)))
            if there:
                into = nl.ndarray((k, m), nl.float32, buffer=nl.psum)
                into[...] = nl.copy(x)
                x = into
            keep = nl.arange(k)[:, None] < rows
            if rows == k:
                r = nisa.nc_matmul(x, y)
            elif by == "mask":
                r = nisa.nc_matmul(x, y, mask=keep)
            else:
                r = nl.matmul(x[keep], y, transpose_x=True)
            t.new(nl.copy(r))
        self.made((m, n))
        self.add({"matmul"} | ({"psum"} if there else set()) |
                 ({"mask: rows", "matmul by " + by} if rows < k else set()),
                 lambda v: v.new(limited(v.vars[a][:rows, :m]).T @ limited(v.vars[b][:rows, :n])),
                 kernels)

    def shaped(self):
        """Tiles of more dimensions, which later steps take views of."""
        k = self.rnd.choice((2, 3, 4, 6, 8))

        def kernels(t):
            t.new(nl.copy(t.vars[0].reshape((P, k, N // k)).permute((0, 2, 1))))
        self.made((P, N // k, k))
        self.add({"three dimensions"}, lambda m: m.new(
            m.vars[0].reshape(P, k, N // k).transpose(0, 2, 1)), kernels)

    def copy(self):
        a, mask = self.view(), None
        mask = Mask(self.rnd, a.shape)
        kind, how = self.rnd.choice(sorted(TYPES)), self.rnd.choice(("nl", "nisa", "activation"))

        def kernels(t):
            x, more = a.of(TILES, t.vars[a.var]), dict(mask.tile(), dtype=TYPES[kind])
            t.new((nl.copy(x, **more) if how == "nl" else nisa.tensor_copy(x, **more)
                   if how == "nisa" else nisa.activation(np.copy, x, **more)).reshape(a.shape))
        self.made(a.shape, kind)
        self.add(a.features | mask.features | {"type: " + kind, "returned"}, lambda m: m.new(
            np.where(mask.keep(), a.of(NUMPY, m.vars[a.var]), 0), kind), kernels)


class Model:
    """NumPy's variables: arrays of float32, each with the type that it stands for."""

    def __init__(self, x, kinds):
        self.vars = [rounded(a, k).copy() for a, k in zip(x, kinds)]
        self.kinds = list(kinds)

    def new(self, value, kind="float32"):
        self.vars.append(np.array(rounded(value, kind), order="C"))  # its own memory
        self.kinds.append(kind)

    def set(self, d, value, keep):
        there = d.of(NUMPY, self.vars[d.var])
        there[...] = np.where(keep, rounded(np.array(value, np.float32), self.kinds[d.var]), there)


class Tiles:
    """The kernel's."""

    def __init__(self, tiles):
        self.vars = list(tiles)

    def new(self, tile):
        self.vars.append(tile)

    def assign(self, d, value):
        if not d.ops:
            self.vars[d.var][...] = value
        else:
            d.of(TILES, self.vars[d.var])[...] = value
