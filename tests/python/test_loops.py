"""Loops at run time: each round does what Python would do in it, or the kernel is refused; ranges
and their bounds."""
import itertools
import types
import unittest

import numpy as np
from helper import KernelCase, counting_down

import nki
import nki.isa as nisa
import nki.language as nl
from soma.errors import KernelError

ONE = np.zeros((1, 1), np.float32)
SHAPE = (8, 4)


def result(body, dtype=nl.float32, x=ONE):
    """What body(s, x) leaves in s, a tile of zeros, or the tile that it returns."""
    def kernel(x):
        out = nl.ndarray(SHAPE, dtype=dtype, buffer=nl.shared_hbm)
        s = nl.zeros(SHAPE, dtype=dtype, buffer=nl.sbuf)
        made = body(s, x)
        nl.store(out, s if made is None else made)
        return out
    return np.asarray(nki.jit(kernel)(x))


def inc(s, by=1):
    nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=float(by))


class Loops(KernelCase):
    def gives(self, body, want, dtype=nl.float32, x=ONE):
        np.testing.assert_array_equal(result(body, dtype, x), np.broadcast_to(want, SHAPE))

    def refused(self, body, pattern, kind=KernelError):
        with self.assertRaisesRegex(kind, pattern):
            result(body)


# ---- Variables of Python ----

class Rounds(Loops):
    def test_what_changes_in_each_round_is_refused_by_name(self):
        def rebound(s, x):
            a = s
            for _ in nl.dynamic_range(3):
                a = nl.add(a, 1.0)
            return a

        def swapped(s, x):
            a, b = s, nl.zeros(SHAPE, nl.float32)
            for _ in nl.dynamic_range(3):
                nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
                a, b = b, a
            return a

        def counter(s, x):
            n = 0
            for _ in nl.dynamic_range(3):
                n += 1
                inc(s, n)

        def third(s, x):
            n = 0
            for _ in nl.dynamic_range(4):
                n += 1
                if n == 3:
                    continue
                inc(s)

        def growing(s, x):
            made = []
            for _ in nl.dynamic_range(3):
                made.append(nl.add(s, 1.0))
            for t in made:
                nisa.tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)

        def attribute(s, x):
            this = types.SimpleNamespace(n=0)
            for _ in nl.dynamic_range(4):
                this.n += 1
                if this.n < 3:
                    inc(s)

        def iterator(s, x):
            it = iter(range(10))
            for _ in nl.dynamic_range(4):
                if next(it) < 3:
                    inc(s)

        def cycled(s, x):
            it = itertools.cycle((1, 1, 2))
            for _ in nl.dynamic_range(4):
                inc(s, next(it))

        def numbered(s, x):
            it = enumerate([1] * 9)
            for _ in nl.dynamic_range(4):
                if next(it)[0] < 3:
                    inc(s)

        def array(s, x):
            n = np.zeros(1)
            for _ in nl.dynamic_range(4):
                n[0] += 1
                if n[0] < 3:
                    inc(s)

        def closure(s, x):
            n = 0

            def body(i):
                nonlocal n
                n += 1
                if n < 3:
                    inc(s)
            nl.fori_loop(0, 4, body)

        def helper(s, x):
            seen = {}

            def step():
                seen[len(seen)] = True
                return len(seen)
            for _ in nl.dynamic_range(4):
                if step() < 3:
                    inc(s)

        def default(s, x):
            def step(seen=[]):
                seen.append(1)
                return len(seen)
            for _ in nl.dynamic_range(4):
                if step() < 3:
                    inc(s)

        def turning(s, x):
            tiles, k = [s, nl.zeros(SHAPE, nl.float32)], 0
            for _ in nl.dynamic_range(4):
                inc(tiles[k % 2])
                k += 1

        def data(s, x):
            left = bytearray((1, 1, 9))
            for _ in nl.dynamic_range(3):
                inc(s, left.pop(0))

        def of_function(s, x):
            of_function.n = 0
            for _ in nl.dynamic_range(4):
                of_function.n += 1
                if of_function.n < 3:
                    inc(s)

        def at_while(s, x):
            r, less = counting_down(4)
            n = 0
            while r:
                n += 1
                if n < 3:
                    inc(s)
                less(r)
        for body, name in ((rebound, "a"), (swapped, "a"), (counter, "n"), (third, "n"),
                           (growing, "made"), (attribute, "this.n"), (iterator, "it"), (array, "n"),
                           (cycled, "it"), (numbered, "it"),
                           (data, "left"), (of_function, "of_function.n"),
                           (closure, "n"), (helper, "seen"), (default, "default 0 of step"),
                           (turning, "k"), (at_while, "n")):
            with self.subTest(body.__name__):
                line = body.__code__.co_firstlineno
                with self.assertRaisesRegex(KernelError, "`%s" % name.replace(".", r"\.")) as e:
                    result(body)
                self.assertLess(line, e.exception.line)
                self.assertLess(e.exception.line, line + 14)

    def test_globals_are_looked_at_too(self):
        global _count
        _count = 0

        def body(s, x):
            global _count
            for _ in nl.dynamic_range(4):
                _count += 1
                if _count < 3:
                    inc(s)
        self.refused(body, "`_count` changes")

    def test_another_call_is_refused_with_both_lines(self):
        def body(s, x):
            odd = False
            for _ in nl.dynamic_range(4):
                if odd:
                    inc(s, 5)
                else:
                    nisa.tensor_copy(dst=s, src=s)
                odd = not odd
        line, at = body.__code__.co_firstlineno, inc.__code__.co_firstlineno + 1
        self.refused(body, r":%d: round 2 of this loop at run time differs from round 1: "
                           r"tensor_scalar \(\S+:%d\), where round 1 did tensor_copy "
                           r"\(\S+:%d\); what changes is `odd`" % (line + 2, at, line + 6))

    def test_a_variable_that_no_round_may_change_is_refused(self):
        def body(s, x):
            t = s
            for _ in nl.dynamic_range(nisa.register_alloc(0)):
                t = nl.add(s, 1.0)
            return t
        self.refused(body, "`t` is read after this loop at run time.* may be 0:")

        def once(s, x):
            t, first = s, True
            for _ in nl.dynamic_range(nisa.register_alloc(1)):
                t = nl.full(SHAPE, 2.0, nl.float32)
                inc(s, 1 if first else 2)
                first = False
            return t
        self.refused(once, "`t` is read after this loop at run time.* may be 0 or 1:")

    def test_what_is_right_runs(self):
        def temporary(s, x):
            t = None
            for _ in nl.dynamic_range(3):
                t = nl.add(s, 1.0)
                nisa.tensor_copy(dst=s, src=t)
            return t

        def made_in_each(s, x):
            for _ in nl.dynamic_range(3):
                one = nl.full(SHAPE, 1.0, nl.float32)
                nisa.tensor_tensor(dst=s, data1=s, data2=one, op=nl.add)
            return nl.add(s, nl.subtract(one, 1.0))

        def first_round(s, x):
            one = None
            for _ in nl.dynamic_range(3):
                if one is None:
                    one = nl.full(SHAPE, 1.0, nl.float32)
                nisa.tensor_tensor(dst=s, data1=s, data2=one, op=nl.add)

        def first_by_register(s, x):
            first = True
            for _ in nl.dynamic_range(nisa.register_alloc(3)):
                inc(s, 2 if first else 0.5)
                first = False

        def kept(s, x):
            cache = {}
            for _ in nl.dynamic_range(3):
                if "one" not in cache:
                    cache["one"] = nl.full(SHAPE, 1.0, nl.float32)
                nisa.tensor_tensor(dst=s, data1=s, data2=cache["one"], op=nl.add)

        def one_round(s, x):
            t, first = s, True
            for _ in nl.dynamic_range(1):
                t = nl.add(t, 3.0 if first else 1.0)
                first = False
            return t

        def two_rounds(s, x):
            n = 0
            for _ in nl.dynamic_range(2):
                n += 1
                inc(s)
            return nl.add(s, n - 1.0)

        def two_unlike(s, x):
            t = s
            for _ in nl.dynamic_range(2):
                t = nl.add(t, 1.5)
            return t

        def unrolled_inside(s, x):
            for _ in nl.dynamic_range(3):
                total = 0
                for k in range(2):
                    total += k
                    inc(s, total)

        def tile_of_the_outside(s, x):
            t = nl.ndarray(SHAPE, nl.float32)
            for _ in nl.dynamic_range(3):
                nisa.tensor_copy(dst=t, src=s)
                inc(s)
            return nl.add(t, 1.0)

        def generator(s, x):
            def rounds(n):
                for i in nl.dynamic_range(n):
                    yield i
            for _ in rounds(3):
                inc(s)
        for body, want in ((temporary, 3), (made_in_each, 3), (first_round, 3), (kept, 3),
                           (first_by_register, 3), (unrolled_inside, 3), (tile_of_the_outside, 3),
                           (generator, 3), (one_round, 3), (two_rounds, 3), (two_unlike, 3)):
            with self.subTest(body.__name__):
                self.gives(body, want)

    def test_a_body_runs_once_more_for_each_loop_around_it(self):
        for depth in (1, 2, 5):
            runs = []

            def body(s, x):
                def level(d):
                    if d == 0:
                        runs.append(1)  # of a closure, but of no frame of the kernel
                        inc(s)
                        return
                    for _ in nl.dynamic_range(3):
                        level(d - 1)
                level(depth)
            with self.assertRaisesRegex(KernelError, "`runs` changes"):
                result(body)

            counted = Counted(inc)

            def quiet(s, x):
                def level(d):
                    if d == 0:
                        counted(s)
                        return
                    for _ in nl.dynamic_range(3):
                        level(d - 1)
                level(depth)
            self.gives(quiet, 3 ** depth)
            self.assertEqual(counted.n, depth + 1)

    def test_zeros_that_a_round_makes(self):
        """An inner loop is begun before a round makes its zeros, and after an earlier one has."""
        a = np.eye(128, 8, dtype=np.float32)

        def body(s, x):
            t = nl.load(x)
            for _ in nl.dynamic_range(3):
                for _ in nl.dynamic_range(2):
                    inc(s)
                p = nl.zeros((8, 8), nl.float32, buffer=nl.psum)
                p[:, 0:4] += nisa.nc_matmul(t, t[:, 0:4])
                nisa.tensor_tensor(dst=s, data1=s, data2=p[:, 4:8], op=nl.add)
        self.gives(body, 6, x=a)

    def test_the_second_record_leaves_nothing_in_the_program(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(SHAPE, x.dtype, buffer=nl.shared_hbm)
            t = nl.load(x)
            for _ in nl.dynamic_range(3):
                inc(t)
            nl.store(out, t)
            return out
        lines = [line.strip() for line in kernel.source(np.zeros(SHAPE, np.float32)).splitlines()]
        self.assertEqual(sum(line.startswith("tensor_scalar ") for line in lines), 1)


class Counted:
    """A function that counts its calls where a loop does not look."""
    __module__ = "builtins"

    def __init__(self, f):
        self.f, self.n = f, 0

    def __call__(self, *args):
        self.n += 1
        self.f(*args)


# ---- Ranges and bounds ----

class Ranges(Loops):
    def test_a_range_is_an_object(self):
        def twice(s, x):
            r = nl.dynamic_range(3)
            for _ in r:
                inc(s)
            for _ in r:
                inc(s, 10)

        def in_itself(s, x):
            r = nl.dynamic_range(3)
            for _ in r:
                for _ in r:
                    inc(s)
        self.gives(twice, 33)
        self.gives(in_itself, 9)

    def test_pythons_own_loops_do_not_take_it(self):
        def listed(s, x):
            for _ in list(nl.dynamic_range(3)):
                inc(s)

        def numbered(s, x):
            for n, _ in enumerate(nl.dynamic_range(3)):
                inc(s, n)

        def zipped(s, x):
            for _, n in zip(nl.dynamic_range(3), range(3)):
                inc(s, n)

        def comprehended(s, x):
            [inc(s) for _ in nl.dynamic_range(3)]

        def unpacked(s, x):
            a, b = nl.dynamic_range(2)

        def starred(s, x):
            print(*nl.dynamic_range(2))

        def rounds():
            for i in nl.dynamic_range(4):
                yield i

        def generated(s, x):
            for n, _ in enumerate(rounds()):
                inc(s, n < 2)

        def generated_too(s, x):
            for n, _ in zip((1, 1, 9), rounds()):
                inc(s, n)

        def stepped(s, x):
            next(iter(nl.dynamic_range(2)))
        for body in (listed, numbered, zipped, comprehended, unpacked, starred, stepped,
                     generated, generated_too):
            with self.subTest(body.__name__):
                self.refused(body, "write `for i in nl.dynamic_range")

    def test_a_while_that_is_left_is_not_taken_for_a_round(self):
        def body(s, x):
            r = nisa.register_alloc(1)
            for _ in range(3):
                while r:
                    inc(s)
                    break
        self.refused(body, "was left by break")

        def goes_on(s, x):
            r, less = counting_down(3)
            while r:
                inc(s)
                less(r)
                if s is None:
                    break
                if s is not None:
                    continue
                inc(s)
        self.gives(goes_on, 3)

        def never(s, x):
            r, less = counting_down(3)
            while r:
                inc(s)
                less(r)
                if s is None:
                    break
        self.gives(never, 3)

        def on(s, x):
            r, less = counting_down(3)
            while r:
                less(r)
                inc(s)
                if s is not None:
                    continue
                inc(s)
        self.gives(on, 3)

    def test_its_variable_ends_with_it(self):
        def body(s, x):
            for i in nl.dynamic_range(4):
                inc(s)
            nisa.dma_copy(dst=s, src=x[i])
        self.refused(body, "has no value after its loop")

        def view(s, x):
            far = nl.ndarray((4,) + SHAPE, nl.float32, buffer=nl.private_hbm)
            for i in nl.dynamic_range(4):
                last = far[i]
                nl.store(last, s)
            return nl.load(last)
        self.refused(view, "has no value after its loop")

    def test_a_loop_without_rounds_is_not_run(self):
        def body(s, x):
            for _ in nl.dynamic_range(3, 3):
                raise AssertionError
        self.gives(body, 0)

    def test_bounds_are_those_at_its_begin(self):
        alloc, move = nisa.register_alloc, nisa.register_move

        def less(s, x):
            r = alloc(4)
            for _ in nl.dynamic_range(r):
                move(r, 1)
                inc(s)

        def more(s, x):
            r = alloc(2)
            for _ in nl.dynamic_range(r):
                move(r, 5)
                inc(s)

        def start(s, x):
            r = alloc(1)
            for _ in nl.dynamic_range(r, 4):
                move(r, 3)
                inc(s)

        def fori(s, x):
            r = alloc(4)

            def body(i):
                move(r, 1)
                inc(s)
            nl.fori_loop(0, r, body)

        def inner(s, x):
            r = alloc(3)
            for _ in nl.dynamic_range(2):
                for _ in nl.dynamic_range(r):
                    move(r, 2)
                    inc(s)

        def outer(s, x):
            r = alloc(3)
            for _ in nl.dynamic_range(r):
                for _ in nl.dynamic_range(2):
                    move(r, 1)
                    inc(s)
        for body, want in ((less, 4), (more, 2), (start, 3), (fori, 4), (inner, 5), (outer, 6)):
            with self.subTest(body.__name__):
                self.gives(body, want)


class NoRounds(Loops):
    """What a loop without rounds, or with few, leaves out is zero."""

    def test_what_no_round_has_written_is_zero(self):
        def filled():
            for buffer in (nl.sbuf, nl.psum):
                for _ in range(3):
                    nisa.memset(dst=nl.ndarray((128, 512), nl.float32, buffer=buffer), value=9.0)

        def rounds(n):
            def body(s, x):
                t = nl.ndarray((8, 8), nl.float32, buffer=nl.sbuf)
                p = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
                for i in nl.dynamic_range(loaded(n)):
                    nisa.memset(dst=t[:, nl.ds(i, 1)], value=1.0)
                    nisa.memset(dst=p[:, nl.ds(i + 2, 1)], value=2.0)
                return nl.add(t[:, 0:4], p[:, 0:4])
            return body

        def loaded(n):
            tile = nl.ndarray((1, 1), nl.int32)
            nisa.memset(dst=tile, value=n)
            return nisa.register_alloc(tile)
        for n, want in ((0, 0), (1, [1, 0, 2, 0]), (2, [1, 1, 2, 2])):
            self.gives(lambda s, x: filled(), 0)
            self.gives(rounds(n), want)


class Order(Loops):
    def test_instructions_are_counted_past_a_loop(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(SHAPE, x.dtype, buffer=nl.shared_hbm)
            s, a, b = nl.load(x), nl.ndarray(SHAPE, x.dtype), nl.ndarray(SHAPE, x.dtype)
            for _ in nl.dynamic_range(2):
                inc(s)
            p = nisa.tensor_copy(dst=a, src=s, engine=nisa.vector_engine)
            q = nisa.memset(dst=b, value=1.0, engine=nisa.gpsimd_engine)
            q.depends_on(p)
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
            nl.store(out, a)
            return out
        source = kernel.source(np.zeros(SHAPE, np.float32))
        self.assertRegex(source, r"memset [^\n]*\$vector_done>=1")

    def test_a_loop_in_no_reorder(self):
        def body(s, x):
            with nl.no_reorder():
                inc(s)
                for _ in nl.dynamic_range(3):
                    inc(s)
                    inc(s)
                inc(s)
        self.gives(body, 8)


if __name__ == "__main__":
    unittest.main()
