"""Steps of test_random.py with loops at run time: a loop of steps, registers in addresses and in
arithmetic, sums in PSUM over a loop, and what Python's variables do in a loop. Each is three
methods: of Steps, which makes it as data; of Arrays, which runs it on NumPy; of Calls, in a
kernel."""
import numpy as np

import nki.isa as nisa
import nki.language as nl

ROWS, COLUMNS = 64, 48  # of a plane of the input
KINDS = ("dynamic_range", "bounds in registers", "fori_loop", "while", "while_loop", "unrolled")
COUNTS = ("dynamic_range", "bounds in registers", "fori_loop", "unrolled")
MOST = 64  # what values are limited to at the end of each round


class Steps:
    """A number that counters give is (coefficient of each open loop's counter, constant)."""

    def begin_loops(self):
        self.open = []  # (kind, largest counter) of each loop around the step that is made
        self.registers = 0

    def rounds(self):
        if len(self.open) == 2:
            return
        kind, n = self.rnd.choice(KINDS), self.rnd.randrange(0, 4)
        start, by = self.rnd.randrange(3), self.rnd.choice((1, 1, 2))
        outer, self.steps = self.steps, []
        variables = len(self.shapes)
        self.open.append((kind, start + max(n - 1, 0) * by))
        makers = [self.named, self.into, self.twice, self.part, self.inplace, self.fill, self.move,
                  self.reduce, self.where, self.isa, self.scalars, self.masked, self.indices,
                  self.product, self.hbm, self.cast, self.activated, self.rounds,
                  self.from_rows, self.from_rows, self.from_plane, self.from_columns,
                  self.to_columns, self.plus_register, self.plus_register, self.kept_register,
                  self.read_register, self.own_sum]
        for _ in range(self.rnd.randrange(1, 5)):
            self.rnd.choice(makers)()
        if self.rnd.randrange(12) == 0:
            self.rnd.choice((self.counted, self.rebound, self.exchanged, self.at_first))()
        body, self.steps = self.steps, outer
        self.open.pop()
        known = kind in ("dynamic_range", "fori_loop", "unrolled")
        keep = n > 0 and known and self.rnd.randrange(3) == 0
        if not keep:
            del self.shapes[variables:], self.kinds[variables:]
        into = {s[1][0] for s in body if isinstance(s[1], tuple) and isinstance(s[1][0], int)}
        self.add("rounds", kind, n, start, by, tuple(body), tuple(v for v in into if v < variables),
                 keep)

    def counters(self, most):
        """An expression of the counters with values from 0 to most; None if none counts."""
        terms, left = [], most
        for kind, high in self.open:
            k = self.rnd.randrange(0, 5) if kind in COUNTS else 0
            k = min(k, left // high if high else k)
            left -= k * high
            terms.append(k)
        return tuple(terms), self.rnd.randrange(left + 1)

    def from_rows(self):
        s = self.shape()
        self.add("from_rows", self.view(s), self.rnd.randrange(4), self.counters(ROWS - s[0]),
                 self.rnd.randrange(COLUMNS - s[1] + 1))

    def from_plane(self):
        s = self.shape()
        self.add("from_plane", self.view(s), self.counters(3), self.counters(ROWS - s[0]))

    def columns(self):
        s = self.shape()
        wide = [i for i, size in enumerate(self.shapes) if size[0] >= s[0] and size[1] >= s[1]]
        v = self.rnd.choice(wide)
        return s, v, self.counters(self.shapes[v][1] - s[1])

    def from_columns(self):
        s, v, at = self.columns()
        self.add("from_columns", self.view(s), v, at)

    def to_columns(self):
        s, v, at = self.columns()
        self.add("to_columns", self.view(s), v, at)

    def plus_register(self):
        self.add("plus_register", self.view(self.shape()), self.counters(40), self.rnd.randrange(3))

    def kept_register(self):
        """A register that a round reads, and then writes for the next one."""
        s = self.shape()
        self.registers += 1
        self.add("kept_register", self.view(s), self.registers, self.rnd.randrange(4),
                 self.counters(ROWS - s[0]))

    def read_register(self):
        self.add("read_register", self.view(self.shape()), self.view((1, 1)), self.rnd.randrange(2))

    def own_sum(self):
        """A sum in PSUM that a loop adds to, and that is copied after it."""
        m, n = self.rnd.choice((16, 32)), self.rnd.choice((8, 48))
        a, b = self.view((64, m)), self.view((64, n))
        kind, rounds = self.rnd.choice(KINDS), self.rnd.randrange(1, 4)
        self.add("own_sum", self.view((m, n)), a, b, kind, rounds, self.rnd.randrange(4),
                 self.rnd.randrange(3))

    def counted(self):
        self.add("counted", self.view(self.shape()))

    def rebound(self):
        self.add("rebound", self.rnd.randrange(4))

    def exchanged(self):
        self.add("exchanged", self.rnd.randrange(2))

    def at_first(self):
        self.add("at_first", self.view(self.shape()))


class Arrays:
    """The steps on NumPy's arrays; `x` is the input."""

    def begin_loops(self, x):
        self.x, self.now, self.kept, self.count, self.seen = x, [], {}, 0, set()

    def number(self, e):
        return sum(k * i for k, i in zip(e[0], self.now)) + e[1]

    def rounds(self, kind, n, start, by, body, into, keep):
        base = len(self.vars)
        for r in range(n):
            del self.vars[base:]
            self.now.append(start + r * by)
            for step in body:
                getattr(self, step[0])(*step[1:])
            for v in into:
                array, kind_of = self.vars[v]
                array[...] = np.clip(array, -MOST, MOST)
            self.now.pop()
        if not keep:
            del self.vars[base:]

    def from_rows(self, d, plane, row, column):
        r = self.number(row)
        self.set(d, self.x[plane, r:r + d[4][0], column:column + d[4][1]])

    def from_plane(self, d, plane, row):
        r = self.number(row)
        self.set(d, self.x[self.number(plane), r:r + d[4][0], 0:d[4][1]])

    def from_columns(self, d, v, at):
        c = self.number(at)
        self.set(d, self.vars[v][0][:d[4][0], c:c + d[4][1]].copy())

    def to_columns(self, a, v, at):
        c = self.number(at)
        array, kind = self.vars[v]
        value = self.at(a).copy()
        array[:a[4][0], c:c + a[4][1]] = self.rounded(value, kind)

    def plus_register(self, d, e, how):
        self.set(d, self.at(d) + np.float32(self.number(e)))

    def kept_register(self, d, name, plane, row):
        r = self.kept.get(name, 0)
        self.set(d, self.x[plane, r:r + d[4][0], 0:d[4][1]])
        self.kept[name] = self.number(row)

    def read_register(self, d, v, how):
        self.set(d, self.at(d) + self.at(v)[0, 0])

    def own_sum(self, d, a, b, kind, rounds, allocation, form):
        a, b = self.limited(self.at(a)), self.limited(self.at(b))
        self.set(d, np.float32(rounds) * (a.T @ b))

    def counted(self, d):
        self.count += 1
        self.set(d, self.at(d) + np.float32(self.count))

    def rebound(self, v):
        array, kind = self.vars[v]
        self.vars[v] = (array + 1).astype(np.float32), "float32"

    def exchanged(self, v):
        self.vars[v], self.vars[v + 1] = self.vars[v + 1], self.vars[v]

    def at_first(self, d):
        if d not in self.seen:
            self.seen.add(d)
            self.set(d, self.at(d) + np.float32(1))


class Calls:
    """The steps in a kernel; `x` is the input in HBM."""

    def begin_loops(self, x):
        self.x, self.now, self.kept, self.count, self.seen = x, [], {}, 0, set()

    def number(self, e):
        total = e[1]
        for k, i in zip(e[0], self.now):
            if k:
                total = i * k + total
        return total

    def loop(self, kind, n, start, by, body):
        """body(counter) n times, in a loop of a kind."""
        stop = start + n * by
        if kind == "dynamic_range":
            for i in nl.dynamic_range(start, stop, by):
                body(i)
        elif kind == "bounds in registers":
            first, last = nisa.register_alloc(start), nisa.register_alloc(stop)
            for i in nl.dynamic_range(first, last, by):
                body(i)
        elif kind == "fori_loop":
            nl.fori_loop(start, stop, body, by)
        elif kind == "unrolled":
            for i in nl.affine_range(start, stop, by):
                body(i)
        else:
            left, one = nl.full((1, 1), n, nl.int32), nl.full((1, 1), 1, nl.int32)
            more = nisa.register_alloc(n)

            def round_(r):
                body(0)
                nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
                nisa.register_load(r, left)
                return r
            if kind == "while_loop":
                nl.while_loop(more, round_)
                return
            while more:
                round_(more)

    def rounds(self, kind, n, start, by, body, into, keep):
        base = len(self.vars)
        for step in body:  # what lasts from round to round is made before the loop
            if step[0] == "kept_register" and step[2] not in self.kept:
                self.kept[step[2]] = nisa.register_alloc(0)

        def round_(i):
            del self.vars[base:]
            self.now.append(i)
            for step in body:
                getattr(self, step[0])(*step[1:])
            for v in into:
                nisa.tensor_scalar(dst=self.vars[v], data=self.vars[v], op0=nl.maximum,
                                   operand0=-float(MOST), op1=nl.minimum, operand1=float(MOST))
            self.now.pop()
            if not keep:
                del self.vars[base:]
        self.loop(kind, n, start, by, round_)

    def from_rows(self, d, plane, row, column):
        rows, columns = d[4]
        self.set(d, nl.load(self.x[plane, nl.ds(self.number(row), rows),
                                   column:column + columns]))

    def from_plane(self, d, plane, row):
        r, (rows, columns) = self.number(row), d[4]
        self.set(d, nl.load(self.x[self.number(plane), r:r + rows, 0:columns]))

    def from_columns(self, d, v, at):
        rows, columns = d[4]
        self.set(d, nl.copy(self.vars[v][0:rows, nl.ds(self.number(at), columns)]))

    def to_columns(self, a, v, at):
        rows, columns = a[4]
        value = nl.copy(self.at(a))
        nisa.tensor_copy(dst=self.vars[v][0:rows, nl.ds(self.number(at), columns)], src=value)

    def plus_register(self, d, e, how):
        i = self.number(e)
        if how == 0:
            self.set(d, nl.add(self.at(d), i, dtype=nl.float32))
        elif how == 1:
            nisa.tensor_scalar(dst=self.at(d), data=self.at(d), op0=nl.add, operand0=i)
        else:
            k = self.key(d)
            self.vars[d[0]][k] += i

    def kept_register(self, d, name, plane, row):
        r = self.kept[name]
        rows, columns = d[4]
        self.set(d, nl.load(self.x[plane, nl.ds(r, rows), 0:columns]))
        nisa.register_move(r, self.number(row))

    def read_register(self, d, v, how):
        r = nisa.register_alloc()
        if how:  # through memory, as an engine's result
            one = nl.copy(self.at(v), dtype=nl.float32)
            nisa.register_load(r, one)
        else:
            nisa.register_load(r, self.at(v))
        nisa.tensor_scalar(dst=self.at(d), data=self.at(d), op0=nl.add, operand0=r)

    def own_sum(self, d, a, b, kind, rounds, allocation, form):
        a, b = self.limited(a), self.limited(b)
        shape = a.shape[1], b.shape[1]
        if allocation == 0:
            p = nl.ndarray(shape, nl.float32, buffer=nl.psum)
        elif allocation == 1:
            p = nl.ndarray(shape, nl.float32, buffer=nl.psum)
            nisa.memset(dst=p, value=0)
        else:
            p = nl.zeros(shape, nl.float32, buffer=nl.psum)

        def add(i):
            if form == 0:
                nisa.nc_matmul(dst=p, stationary=a, moving=b)
            elif form == 1 and allocation > 1:
                nisa.nc_matmul(dst=p, stationary=a, moving=b, accumulate=True)
            else:
                p[...] += nisa.nc_matmul(a, b)
        self.loop(kind, rounds, 0, 1, add)
        self.set(d, nl.copy(p))

    def counted(self, d):
        self.count += 1
        nisa.tensor_scalar(dst=self.at(d), data=self.at(d), op0=nl.add, operand0=float(self.count))

    def rebound(self, v):
        self.vars[v] = nl.add(self.vars[v], 1.0, dtype=nl.float32)

    def exchanged(self, v):
        self.vars[v], self.vars[v + 1] = self.vars[v + 1], self.vars[v]

    def at_first(self, d):
        if d not in self.seen:
            self.seen.add(d)
            nisa.tensor_scalar(dst=self.at(d), data=self.at(d), op0=nl.add, operand0=1.0)


# ---- What sequences cover ----

FEATURES = {
    "masked": "mask", "part": "view", "alias": "alias", "indices": "index objects",
    "product": "matmul", "own_sum": "sum over a loop", "turned": "transpose", "hbm": "HBM",
    "cast": "types", "reduce": "reduction", "where": "where", "from_rows": "dynamic rows",
    "from_plane": "sum of registers", "from_columns": "dynamic columns",
    "to_columns": "dynamic columns", "plus_register": "register as a number",
    "kept_register": "register kept", "read_register": "register loaded",
    "counted": "Python varies",
    "rebound": "Python varies", "exchanged": "Python varies", "at_first": "first round differs",
    "isa": "dst=", "scalars": "dst=", "activated": "dst=", "named": "returned tile",
    "into": "returned tile", "inplace": "+= and -=", "twice": "returned tile"}


def features(steps, depth=0):
    """The names of what steps do."""
    found = set()
    for step in steps:
        if step[0] == "rounds":
            found |= {step[1]} | ({"nested loop"} if depth else set())
            found |= features(step[5], depth + 1) | ({"no rounds"} if step[2] == 0 else set())
        elif step[0] in FEATURES:
            found.add(FEATURES[step[0]])
        if step[0] == "own_sum":
            found.add(step[4])
    return found


def table(counts):
    """counts: {(feature, feature): sequences that agreed}, as lines; on the diagonal each alone."""
    names = sorted({a for a, _ in counts})
    lines = ["%22s %s" % ("", " ".join("%6d" % (i + 1) for i in range(len(names))))]
    for i, a in enumerate(names):
        lines.append("%2d %-19s %s" % (i + 1, a, " ".join(
            "%6d" % counts.get((a, b), 0) for b in names[:i + 1])))
    pairs = len(names) * (len(names) - 1) // 2
    met = sum(counts.get((a, b), 0) > 0 for i, a in enumerate(names) for b in names[:i])
    lines.append("%d features, %d of %d pairs" % (len(names), met, pairs))
    return "\n".join(lines)
