"""What a kernel reads around it may change between two calls: a program that was recorded before is
not used again then, and is while nothing has changed."""
import dataclasses
import enum
import functools
import sys
import types
import unittest

import numpy as np
from helper import KernelCase, data

import nki
import nki.isa as nisa
import nki.language as nl

NUMBER, ZERO, PAIR = 2.0, 0.0, (2.0, 1)
TABLE, ROW, DEEP = {"s": 2.0}, [2.0], {"a": [{"b": (1, [2.0])}]}
ARRAY, SCALAR, LARGE = np.array([2.0]), np.float32(2.0), np.full(300000, 2.0)
SPACE = types.SimpleNamespace(s=2.0)
SET = {2.0}
MODULE = types.ModuleType("of_the_user")
MODULE.s, MODULE.table = 2.0, {"s": 2.0}
GENERATOR = np.random.default_rng(1)


class Base:
    s = 2.0


class Derived(Base):
    def get(self):
        return self.s


@dataclasses.dataclass
class Config:
    s: float = 2.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    sizes: list = dataclasses.field(default_factory=lambda: [2.0])


class Slots:
    __slots__ = ("s",)

    def __init__(self):
        self.s = 2.0


class Cyclic:
    def __init__(self):
        self.s, self.me = 2.0, self


class Kind(enum.Enum):
    ONE = 1


FROZEN = Frozen()
CONFIG, SLOTS, CYCLIC, OBJECT = Config(), Slots(), Cyclic(), Derived()


def plain():
    return 2.0


def with_default(s=2.0):
    return s


def calls():
    return plain()


def with_field():
    return with_field.s


with_field.s = 2.0
BY_NAME = {"f": plain}
PART = functools.partial(with_default, 2.0)


@functools.lru_cache(None)
def cached():
    return 2.0


def kernel_of(get):
    """A kernel that multiplies by what get() gives."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=get())
        nisa.dma_copy(dst=out, src=t)
        return out
    return kernel


def set_global(name, value):
    globals()[name] = value


def item(where, key):
    return lambda v: where.__setitem__(key, v)


def field(where, name="s"):
    return lambda v: setattr(where, name, v)


# (what it is, what reads it, what sets it)
CASES = [
    ("number", lambda: NUMBER, lambda v: set_global("NUMBER", v)),
    ("tuple", lambda: PAIR[0], lambda v: set_global("PAIR", (v, 1))),
    ("dict", lambda: TABLE["s"], item(TABLE, "s")),
    ("list", lambda: ROW[0], item(ROW, 0)),
    ("nested", lambda: DEEP["a"][0]["b"][1][0], item(DEEP["a"][0]["b"][1], 0)),
    ("array", lambda: float(ARRAY[0]), item(ARRAY, 0)),
    ("numpy scalar", lambda: float(SCALAR), lambda v: set_global("SCALAR", np.float32(v))),
    ("large array", lambda: float(LARGE[9]), item(LARGE, 9)),
    ("set", lambda: min(SET), lambda v: (SET.clear(), SET.add(v))),
    ("class", lambda: Base.s, field(Base)),
    ("base class", lambda: Derived().get(), field(Base)),
    ("object", lambda: OBJECT.get(), field(OBJECT)),
    ("dataclass", lambda: CONFIG.s, field(CONFIG)),
    ("frozen dataclass", lambda: FROZEN.sizes[0], item(FROZEN.sizes, 0)),
    ("slots", lambda: SLOTS.s, field(SLOTS)),
    ("cycle", lambda: CYCLIC.me.s, field(CYCLIC)),
    ("namespace", lambda: SPACE.s, field(SPACE)),
    ("module", lambda: MODULE.s, field(MODULE)),
    ("dict of a module", lambda: MODULE.table["s"], item(MODULE.table, "s")),
    ("default", lambda: with_default(), lambda v: setattr(with_default, "__defaults__", (v,))),
    ("field of a function", lambda: with_field(), field(with_field)),
]


class Changes(KernelCase):
    def setUp(self):
        self.x = data(4, 8)

    def test_kept_while_nothing_changes(self):
        for name, get, _ in CASES:
            kernel = kernel_of(get)
            first = kernel.build((self.x,), {})[0]
            again = kernel.build((self.x,), {})[0] is first
            self.assertEqual(again, name != "large array", name)

    def test_a_changed_value_is_seen(self):
        for name, get, change in CASES:
            kernel = kernel_of(get)
            self.same(kernel(self.x), 2 * self.x, 0, 0)
            try:
                change(3.0)
                np.testing.assert_array_equal(kernel(self.x), 3 * self.x, name)
            finally:
                change(2.0)

    def test_a_redefined_function_is_seen(self):
        global plain
        kernels = [kernel_of(f) for f in (lambda: plain(), calls, lambda: calls())]
        old = plain
        try:
            for kernel in kernels:
                kernel(self.x)

            def plain():
                return 3.0
            for kernel in kernels:
                self.same(kernel(self.x), 3 * self.x, 0, 0)
        finally:
            plain = old

    def test_a_function_with_another_code_is_seen(self):
        kernels = [kernel_of(f) for f in (lambda: BY_NAME["f"](), lambda: calls())]
        old = plain.__code__
        try:
            for kernel in kernels:
                self.same(kernel(self.x), 2 * self.x, 0, 0)
            plain.__code__ = (lambda: 3.0).__code__
            for kernel in kernels:
                self.same(kernel(self.x), 3 * self.x, 0, 0)
        finally:
            plain.__code__ = old

    def test_a_changed_method_is_seen(self):
        kernel, old = kernel_of(lambda: OBJECT.get()), Derived.get
        kernel(self.x)
        try:
            Derived.get = lambda self: 3.0
            self.same(kernel(self.x), 3 * self.x, 0, 0)
        finally:
            Derived.get = old

    def test_a_name_that_hides_a_builtin_is_seen(self):
        kernel = kernel_of(lambda: float(max(1, 2)))
        self.same(kernel(self.x), 2 * self.x, 0, 0)
        try:
            set_global("max", lambda *a: 3)
            self.same(kernel(self.x), 3 * self.x, 0, 0)
        finally:
            del globals()["max"]

    def test_minus_zero_and_true_are_values_of_their_own(self):
        kernel = kernel_of(lambda: ZERO)
        try:
            for zero in (0.0, -0.0, False):
                set_global("ZERO", zero)
                got = kernel(np.ones((4, 8), np.float32))
                self.assertEqual(np.signbit(got).all(), np.signbit(float(zero)))
        finally:
            set_global("ZERO", 0.0)

    def test_partial_and_cached_functions_are_kept(self):
        for get in (lambda: PART(), lambda: cached()):
            kernel = kernel_of(get)
            self.assertIs(kernel.build((self.x,), {})[0], kernel.build((self.x,), {})[0])

    def test_what_cannot_be_compared_is_recorded_anew(self):
        kernel = kernel_of(lambda: float(GENERATOR.integers(1, 1 << 20)))
        self.assertNotEqual(kernel(self.x)[0, 0], kernel(self.x)[0, 0])

    def test_what_an_argument_brings_is_seen(self):
        global NUMBER

        @nki.jit
        def kernel(x, get, config):
            t = nl.load(x)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t * (get() * config.s))
            return out
        get, config = (lambda: NUMBER), Derived()
        self.same(kernel(self.x, get, config), 4 * self.x, 0, 0)
        try:
            NUMBER = 3.0
            self.same(kernel(self.x, get, config), 6 * self.x, 0, 0)
            Base.s = 5.0
            self.same(kernel(self.x, get, config), 15 * self.x, 0, 0)
        finally:
            NUMBER, Base.s = 2.0, 2.0


sys.modules["of_the_user"] = MODULE

if __name__ == "__main__":
    unittest.main()
