"""The recorder in C: what it does with wrong objects, and that it keeps and loses nothing."""
import gc
import inspect
import os
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from operator import setitem

import numpy as np
from helper import data

import nki
import nki.isa as nisa
import nki.language as nl
from soma import insn, launch, lib, record
from soma.errors import KernelError, SomaError
from soma.index import Index
from soma.masks import Mask
from soma.native import _soma
from soma.tensor import Storage, Tensor


COPY = insn.OP["tensor_copy"]


CHANGES = "reshape permute reshape_dim flatten_dims broadcast expand_dim squeeze_dim select cut " \
    "view ap none".split()
CALLS = [f for f in vars(nisa).values() if isinstance(f, _soma.Call)] + [nl.load, nl.store, nl.add]


def made_call():
    """A Call that copies."""
    fields = tuple((kind, argument, None, 0, False) for kind, argument in (
        (_soma.VIEW, 0), (_soma.VIEW, 1), (_soma.WORD, -1)))
    return _soma.Call(lambda dst, src: None, ("dst", "src"), (..., ...), COPY, -1, fields, {}, {},
                      (-1, -1, -1, -1), 0, (-1, -1, -1, -1))


class Module(unittest.TestCase):
    def test_without_it_the_package_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.abspath(lib.lib._name), os.path.join(folder, "libsoma.so"))
            done = subprocess.run(
                [sys.executable, "-c", "import soma"], capture_output=True, text=True,
                env=dict(os.environ, SOMA_LIB=os.path.join(folder, "libsoma.so"),
                         PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ImportError: _soma.abi3.so, which records kernels, was not found: install "
                      "python3-dev", done.stderr)
        self.assertIn(folder, done.stderr)

    def test_classes_are_made_from_its_own(self):
        for given in ({"Index": int}, {"View": object}, {"Storage": 3}, {"Mask": Index}):
            with self.assertRaisesRegex(TypeError, "is not made from _soma"):
                _soma.use(**given)
        with self.assertRaises(TypeError):
            _soma.use(3)


def usual(a):
    """A kernel with keys and calls of all kinds."""
    c = nl.ndarray((512, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    i, j = nl.arange(128)[:, None], nl.arange(64)[None, :]
    for k in range(4):
        t = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a[nl.ds(k * 128, 128), :])
        nisa.tensor_scalar(dst=t[:, 0:8], data=t[:, 8:16], op0=nl.multiply, operand0=0.5)
        t[i, 2 * nl.arange(32)[None, :] + 1] = nl.exp(t[0:128, 0:32])
        nl.store(c[128 * k + i, j], t[i, j], mask=(128 * k + i < 512) & (j < 60))
    return c


def made():
    """The bytes of its program."""
    return launch.build(usual, (data(512, 64),), {}, "trn2").program.bytes()


class Counted(unittest.TestCase):
    def build(self):
        return launch.build(usual, (data(512, 64),), {}, "trn2")

    def test_nothing_is_left_of_a_recording(self):
        for _ in range(3):
            self.build()
        counts = []
        for _ in range(4):
            self.build()
            gc.collect()
            counts.append(len([x for x in gc.get_objects()
                               if isinstance(x, (Tensor, Storage, Mask, _soma.Recording))]))
        self.assertEqual(len(set(counts)), 1, counts)

    def test_references_that_calls_take(self):
        """What each call below is given has as many references after it as before."""
        @nki.jit
        def kernel(a):
            t = nl.ndarray((64, 4, 8), dtype=a.dtype, buffer=nl.sbuf)
            nisa.memset(dst=t, value=0)
            column = nl.ndarray((64, 1), dtype=a.dtype, buffer=nl.sbuf)
            p = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.psum)
            array = nl.ndarray((2, nl.par_dim(64), 8), dtype=a.dtype, buffer=nl.sbuf)
            for n in range(2):
                array[n] = nl.load(a[:, 0:8])
            rec, b = record.active(), a[:, 0:32].reshape((64, 4, 8))
            i, j = nl.arange(64)[:, None, None], nl.arange(8)[None, None, :]
            key, half, far, number = (i, 1, j), slice(0, 32), 10 ** 6, 1000003
            given = key + (key, half, far, number, t, t.storage, t.dtype, array, array[1])
            calls = (lambda: t[key], lambda: t[half], lambda: t[half, 1], lambda: i + j,
                     lambda: i * number, lambda: number - i, lambda: i - j, lambda: i < number,
                     lambda: (i < number) & (j <= 3), lambda: i == 3, lambda: i[None, :, :, :],
                     lambda: nl.arange(number), lambda: nl.ds(number, far), lambda: t.words(),
                     lambda: t.exact_words(), lambda: t.shape, lambda: i.coef, lambda: repr(i + j),
                     lambda: (i < number).size, lambda: (i < number).leaves_all(t.shape),
                     lambda: Tensor(t.storage, t.dtype, (64, 32), (1, 1)), lambda: array[1],
                     lambda: array[1, half], lambda: array[1, nl.arange(64)[:, None], 3],
                     lambda: setitem(t, half, 0.5), lambda: setitem(t, key, nl.exp(t[key])),
                     lambda: setitem(t, key, nl.exp(t)[key]), lambda: nl.add(t, t),
                     lambda: setitem(array, (1, half), nl.add(array[0][half], 1.0)),
                     lambda: nisa.tensor_copy(dst=t[:, 0], src=t[:, 1]), lambda: rec.where(),
                     lambda: rec.flush(), lambda: t.reshape((64, -1)), lambda: t.select(1, 2),
                     lambda: t.ap([[32, 64], [1, 8]]), lambda: t[half].is_contiguous(),
                     lambda: is_refused(t.permute, (1, 0, 2)),
                     lambda: is_refused(t.reshape, (64, 3)),
                     lambda: is_refused(t._other, far, number), lambda: t[i + 1, 1, j + number],
                     lambda: is_refused(t.__getitem__, (j, 1, i)), lambda: (i * 4 - number) // 2,
                     lambda: i % number, lambda: is_refused(i.__floordiv__, 0.5),
                     lambda: ((i < number) & (j < 3) & (i < j)).limits(),
                     lambda: t[:, nl.arange(4)],
                     lambda: nisa.activation(op=nl.exp, data=t, bias=array[1][:, 0:1]),
                     lambda: nisa.tensor_scalar(data=t, op0=nl.add, operand0=1.0, mask=i < 99),
                     lambda: rec.again(t.shape, t.dtype, 1), lambda: nl.multiply(t, number),
                     lambda: nisa.tensor_scalar(t, t, op0=nl.add, operand0=0.5, name="call"),
                     lambda: nisa.scalar_tensor_tensor(data=t, op0=nl.add, operand0=1.5,
                                                       op1=nl.add, operand1=t),
                     lambda: nisa.dma_copy(dst=t, src=b), lambda: nl.load(b, dtype=t.dtype),
                     lambda: nl.store(b, t), lambda: nisa.tensor_copy.__doc__,
                     lambda: nisa.tensor_copy.__get__(t, None), lambda: repr(nl.exp),
                     lambda: nl.exp.__reduce__(), lambda: made_call(), lambda: made_call()(t, t),
                     lambda: nisa.nc_matmul(dst=p, stationary=t, moving=t),
                     lambda: nisa.nc_matmul(dst=p, stationary=t, moving=t, accumulate=True),
                     lambda: nisa.activation_reduce(dst=t, op=nl.exp, data=t, reduce_op=nl.add,
                                                    reduce_res=column),
                     lambda: nisa.tensor_reduce(dst=column, op=nl.add, data=t[:, 0], axis=[1]),
                     lambda: nisa.iota(dst=t, pattern=[[1, 32]], offset=number),
                     lambda: i * 3 - j, lambda: i[:, :, None] - 1 + j < 3)
            wrong = (lambda: setitem(t, far, 1), lambda: setitem(array, 2, 1),
                     lambda: array[1, far], lambda: setitem(t, half, "x"), lambda: array["x"],
                     lambda: rec.hold(t), lambda: rec.hold((None, number, (), 0, 0)),
                     lambda: rec.again(t), lambda: rec._into((None, t, (), 0, 0), t),
                     lambda: rec._into(t, t), lambda: rec._into(((1, 2), t, (), 0, 0), t),
                     lambda: _soma.done(rec, "x"),
                     lambda: rec._into(((1, -1, ("x",)), t, (), 0, 0), t), lambda: rec._lend(3),
                     lambda: rec._into(((1, -1, (bytes(3),)), t, (t,), 0, 0), t),
                     lambda: nl.exp(t, what=1), lambda: nl.exp(t, x=t), lambda: nl.exp.nothing,
                     lambda: nisa.tensor_copy(dst=t, src=t, engine=key), lambda: nl.exp(t, key),
                     lambda: nl.exp(), lambda: nl.add(t, 1.5, None, None, None),
                     lambda: nisa.tensor_copy(dst=t, src=t[0:1]), lambda: _soma.Call(nl.exp, key),
                     lambda: rec._into(((1, -1, b""), t, (), 0, 0), t), lambda: t.__delitem__(half),
                     lambda: array.__delitem__(1), lambda: t[far],
                     lambda: t[half, half, half, half], lambda: t["x"], lambda: i + "x",
                     lambda: i * j, lambda: i[half], lambda: i + nl.arange(7)[:, None, None],
                     lambda: nl.arange(number, 0), lambda: nl.arange("x"), lambda: i + (1 << 70),
                     lambda: i * (1 << 62) * 2,
                     lambda: Tensor(t.storage, t.dtype, (1,) * 17, (1,) * 17),
                     lambda: Tensor(t.storage, number, (1, 1), (1, 1)),
                     lambda: Tensor(t, t.dtype, (1, 1), (1, 1)), lambda: Index([1, 2], [3], 0, "x"),
                     lambda: Index([1], [half], 0, "x"), lambda: Mask([number], "x"),
                     lambda: setattr(t, "shape", number), lambda: setattr(t, "off", half),
                     lambda: setattr(t, "dtype", number))
            for function in calls + wrong:
                for round_ in range(3):  # what is made once is there after the first
                    gc.collect()
                    before = [sys.getrefcount(x) for x in given]
                    for _ in range(20):
                        try:
                            function()
                        except (KernelError, TypeError, ValueError, IndexError,
                                AttributeError) as error:
                            error.__traceback__ = None
                            refused.add(function)
                            del error
                    gc.collect()
                    after = [sys.getrefcount(x) for x in given]
                self.assertEqual(before, after, inspect.getsource(function))
            self.assertEqual(refused, set(wrong))
            return a
        refused = set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of results that nothing uses
            kernel(data(64, 32))


class Hostile(unittest.TestCase):
    def test_the_list_of_a_mask_that_is_changed(self):
        mask = nl.arange(4)[:, None] < 5
        mask.terms.append("x")
        for ask in (lambda: mask.size, lambda: mask.leaves_all((4, 4)), mask.limits):
            with self.assertRaisesRegex(TypeError, "the terms of a mask are indices"):
                ask()
        for shape in ([4], (1,) * 100):
            with self.assertRaisesRegex(TypeError, r"a tuple of at most \d+ sizes, not [\[(]"):
                (nl.arange(4)[:, None] < 5).leaves_all(shape)

    def test_classes_that_nobody_makes(self):
        with self.assertRaises(TypeError):
            _soma.DynSlice()
        blank = _soma.Recording.__new__(_soma.Recording)
        with self.assertRaisesRegex(AttributeError, "_file_of"):
            blank.where()
        with self.assertRaises(TypeError):
            blank.emit(1)
        with self.assertRaises(TypeError):
            blank.tile(3)

    def test_a_record_after_the_end(self):
        kept = []

        def kernel(a):
            kept.append(record.active())
            return a
        launch.build(kernel, (data(64, 32),), {}, "trn2")
        kept[0].at = 0, 0
        with self.assertRaisesRegex(KernelError, "a kernel that has ended"):
            kept[0].emit(1, -1, ((0,),))
        kept[0].at = None
        with self.assertRaisesRegex(KernelError, "is finished"):
            kept[0].where()

    def test_numbers_that_do_not_fit(self):
        far = nl.arange(2)[:, None] * (1 << 60)
        with self.assertRaisesRegex(KernelError, "the numbers of an index do not fit in 61 bits"):
            far * 2
        with self.assertRaisesRegex(KernelError, "do not fit in 61 bits"):
            (far + (1 << 60)).bounds()
        with self.assertRaisesRegex(KernelError, "the number %d does not fit" % (1 << 63)):
            far * (1 << 63)


class Pool:
    """Objects of all kinds, right and wrong, for calls that follow one another by chance."""

    def __init__(self, seed, a):
        self.rnd = random.Random(seed)
        self.rec = record.active()
        self.tiles = [nl.ndarray((64, 4, 8), t, buffer=nl.sbuf) for t in (nl.float32, nl.int32)]
        self.array = nl.ndarray((2, nl.par_dim(64), 8), nl.float32, buffer=nl.sbuf)
        self.views = self.tiles + [a, self.array[1], a.reshape((8, 8, 2, 2, 4, 2))]
        self.indices = [nl.arange(64)[:, None, None], nl.arange(8)[None, None, :], nl.arange(4)]
        self.masks = [self.indices[0] < 60]

    def number(self):
        return self.rnd.choice((0, 0, 1, 1, 2, 3, 7, 8, 63, 64, -1, -9, 1 << 31, 1 << 62,
                                -(1 << 63), 1 << 70, np.int64(2), 2.0, True))

    def slice(self):
        parts = [self.rnd.choice((None, self.number())) for _ in range(3)]
        return self.rnd.choice((slice(None), slice(*parts), slice(*parts[:2]),
                                nl.ds(self.number(), self.number())))

    def view(self):
        return self.rnd.choice(self.views)

    def index(self):
        return self.rnd.choice(self.indices)

    def any(self):
        return self.rnd.choice((
            self.number, self.number, self.slice, self.view, self.index, self.key,
            lambda: self.rnd.choice(self.masks), lambda: self.view().storage,
            lambda: self.rnd.choice((None, Ellipsis, "x", b"12345678", b"123", 1.5, {}, [1, 2],
                                     Tensor, self.array, self.rec, object(), (), (1, 2)))))()

    def key(self):
        kinds = self.number, self.slice, self.index
        return tuple(self.rnd.choice(kinds)() for _ in range(self.rnd.randrange(7)))

    def held(self):
        emit = self.rnd.choice((None, (1, -1, b""), (1, -1, (self.view(), self.number())),
                                (1, -1, self.any()), lambda *given: None, self.any()))
        return self.rnd.choice(((emit, self.view(), (self.view(),), False, False),
                                (emit, self.any(), self.any(), 0, self.any()), self.any()))

    def given(self, make):
        """Arguments by name."""
        names = ("dst", "src", "data", "x", "y", "data1", "data2", "operand0", "bias", "mask",
                 "dtype", "engine", "name", "value")
        given = {n: make() for n in self.rnd.sample(names, self.rnd.randrange(5))}
        more = {"op": nl.add, "op0": nl.multiply, "operand0": 0.5, "scale": 2.0}
        return {**given, **dict(self.rnd.sample(sorted(more.items(), key=str), 2))}

    def some_call(self):
        """A Call of any fields, most of which are possible."""
        pick, names = self.rnd.choice, tuple(self.rnd.sample(("dst", "src", "data", "op", "x"), 3))
        fields = ((_soma.VIEW, pick((0, 0, -1)), None, 0),) + tuple(
            (pick(range(_soma.WORD + 2)), pick((-1, 0, 1, 2, 3)),
             pick((None, None, {1: 2}, {nl.add: 3})), self.number(), pick((False, True)))
            for _ in range(self.rnd.randrange(1, 6)))
        others = tuple(pick((-1, -1, 0, 1, 2)) for _ in range(4))
        return _soma.Call(lambda *a, **k: None, names, (..., None, self.any()), self.number(),
                          pick((-1, 1)), fields, {None: -1, 1: 2}, {np.float32: nl.float32}, others,
                          self.rnd.randrange(2 * _soma.MATMUL),
                          (COPY, -1, pick((-1, 0, 2, 9)), pick((-1, -1, 1))))

    def made(self, x):
        """Keeps what a call has made, for those that follow."""
        kept = {Tensor: self.views, Index: self.indices, Mask: self.masks}.get(type(x))
        if kept is not None:
            kept.append(x) if len(kept) < 30 else kept.__setitem__(self.rnd.randrange(30), x)

    def put(self):
        """Changes an attribute."""
        x, names = self.rnd.choice((
            (self.view(), ("shape", "steps", "part", "off", "dtype", "dyn", "bound", "pending")),
            (self.view().storage, ("handle", "order", "zero", "place", "left", "lent")),
            (self.rec, ("pending", "at", "frame", "early", "hints", "sites", "ordered")),
            (self.array, ("tiles", "leads"))))
        name = self.rnd.choice(names)
        before = getattr(x, name)
        try:
            setattr(x, name, self.any())
            self.call(self.rnd.choice(self.calls[:-1]))
        finally:
            setattr(x, name, before)

    calls = (
        lambda p: p.view()[p.key()], lambda p: p.view()[p.any()], lambda p: p.array[p.key()],
        lambda p: p.index() + p.any(), lambda p: p.any() - p.index(), lambda p: p.index() * p.any(),
        lambda p: p.index() < p.any(), lambda p: p.index() == p.any(),
        lambda p: p.any() >= p.index(),
        lambda p: p.index()[p.key()], lambda p: p.index()[None, :], lambda p: -p.index(),
        lambda p: nl.arange(*p.key()[:3]), lambda p: p.index().bounds(), lambda p: repr(p.index()),
        lambda p: p.rnd.choice(p.masks).leaves_all(p.any(), p.view().shape),
        lambda p: p.rnd.choice(p.masks).size, lambda p: nl.ds(p.any(), p.any()),
        lambda p: Index(p.any(), p.any(), p.any(), "x"), lambda p: Mask(p.any(), p.any()),
        lambda p: Tensor(p.any(), p.any(), p.any(), p.any()), lambda p: p.view().words(),
        lambda p: Tensor(p.view().storage, nl.float32, p.key(), p.key(), p.number(), p.number()),
        lambda p: p.view().exact_words(), lambda p: p.view().numbers(), lambda p: p.view().size,
        lambda p: p.view()._other(p.rnd.choice(CHANGES), *[p.number() for _ in range(
            p.rnd.randrange(8))]), lambda p: p.view()._other(p.rnd.choice(CHANGES), *p.key()),
        lambda p: p.view().reshape(p.key()), lambda p: p.view().is_contiguous(),
        lambda p: p.view().select(p.number(), p.any()), lambda p: p.view()._other(*p.key()),
        lambda p: setitem(p.view(), p.key(), p.any()), lambda p: setitem(p.array, p.key(), p.any()),
        lambda p: p.rec.emit(p.number(), p.number(), (p.view(), p.any())),
        lambda p: p.rec.emit(p.any(), -1, p.any(), p.any()), lambda p: p.rec.hold(p.held()),
        lambda p: p.rec._into(p.held(), p.view()), lambda p: p.rec._lend(p.any()),
        lambda p: p.rnd.choice(CALLS)(*p.key()[:3], **p.given(p.any)),
        lambda p: p.rnd.choice(CALLS)(**p.given(p.view)),
        lambda p: p.some_call()(*p.key()[:3], **p.given(p.view)),
        lambda p: p.rec.tile(p.any()), lambda p: p.rec.again(p.any(), p.any(), p.any()),
        lambda p: p.rec.flush(), lambda p: p.rec.where(),
        lambda p: _soma.done(p.rec, p.any(), p.any()),
        lambda p: p.put())

    def call(self, function):
        try:
            self.made(function(self))
            return 1
        except (SomaError, TypeError, ValueError, IndexError, AttributeError, OverflowError,
                KeyError, MemoryError, ArithmeticError, RecursionError, record.Redo):
            return 0  # an array may have been made its own tile


class Random(unittest.TestCase):
    def test_calls_by_chance(self):
        """Each works or is refused; what was recorded is built or refused."""
        count, worked = int(os.environ.get("SOMA_RANDOM", "6000")), []
        first = int(os.environ.get("SOMA_FIRST", "0"))

        def kernel(a):
            pool = Pool(first + len(worked), a)
            worked.append(sum(pool.call(pool.rnd.choice(Pool.calls)) for _ in range(300)))
            pool.rec.pending = None
            return a
        for _ in range(count // 300):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    launch.build(kernel, (data(64, 32),), {}, "trn2")
                except (SomaError, TypeError, ValueError, AttributeError, KeyError,
                        ArithmeticError):
                    pass
        self.assertGreater(sum(worked), count // 4)

    def test_allocations_that_fail(self):
        """One after another of those that a call makes."""
        try:
            from _testcapi import remove_mem_hooks, set_nomemory
        except ImportError:
            raise unittest.SkipTest("this Python has no _testcapi") from None
        refused = []

        def kernel(a):
            t = nl.load(a)
            i, j = nl.arange(64)[:, None], nl.arange(32)[None, :]
            t.words()
            rec, key, half = record.active(), (i, j), slice(0, 32)
            held = (COPY, -1, (t, 0)), t, (t,), False, False
            for function in (
                    lambda: t[key], lambda: t[half], lambda: i + j, lambda: (i < 60) & (j <= 3),
                    lambda: i[None, :, :], lambda: nl.arange(5, 9), lambda: nl.ds(2, 3), t.words,
                    lambda: t.shape, lambda: rec.tile(t), rec.where, lambda: i * 4 - j,
                    lambda: _soma.done(rec, 0), lambda: rec.emit(COPY, -1, (t, t, 0)),
                    lambda: rec._into(held, t), lambda: setitem(t, key, t[key]),
                    lambda: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=0.5),
                    lambda: nisa.tensor_tensor(data1=t, data2=t, op=nl.add),
                    lambda: t._other("reshape", 64, 4, -1), lambda: t._other("permute", 1, 0),
                    lambda: t[i + 9, j * 2], lambda: t[j, i], lambda: (i * 4) // 2,
                    lambda: i % 64, ((i < 60) & (i > 3) & (i < j)).limits,
                    lambda: nl.multiply(t, 2.5), lambda: nl.load(a), made_call, lambda: nl.exp(x=t),
                    lambda: nisa.dma_copy(dst=t, src=a, name="it")):
                for n in range(60):
                    stopped = False
                    set_nomemory(n, n + 1)
                    try:
                        function()
                    except Exception as error:  # SystemError: one without a reason
                        stopped = error.__class__
                    finally:
                        remove_mem_hooks()
                    refused.append(stopped)
            self.assertNotIn(SystemError, refused)
            return a
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a tile that nothing has written
            launch.build(kernel, (data(64, 32),), {}, "trn2")
        self.assertGreater(refused.count(MemoryError), 40)


def is_refused(function, *arguments):
    try:
        function(*arguments)
    except (SomaError, TypeError):
        return
    raise AssertionError("%r took %s" % (function, arguments))


class Interrupted(unittest.TestCase):
    def test_a_recording_that_an_error_ends(self):
        """The next one is as if it had not been."""
        def broken(a):
            t = nl.load(a[0:128, :])
            raise KeyboardInterrupt
        before = made()
        for _ in range(3):
            with self.assertRaises(KeyboardInterrupt):
                launch.build(broken, (data(512, 64),), {}, "trn2")
        self.assertEqual(made(), before)

    def test_a_signal_within_a_recording(self):
        code = """if True:
            import signal, sys
            import numpy as np, nki, nki.language as nl, nki.isa as nisa
            @nki.jit
            def kernel(a):
                t = nl.ndarray((128, 64), a.dtype, buffer=nl.sbuf)
                nisa.memset(dst=t, value=0)
                while more[0]:
                    nisa.tensor_scalar(dst=t[:, 0:8], data=t[:, 8:16], op0=nl.add, operand0=1.0)
                return a
            a, more = np.ones((128, 64), np.float32), [False]
            def stop(*_):
                if more[0]:
                    raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, stop)
            for wait in (0.05, 0.02, 0.01):
                more[0] = True
                signal.setitimer(signal.ITIMER_REAL, wait, 0.2)  # again, if a destructor hides it
                try:
                    kernel(a)
                    sys.exit("it was not stopped")
                except KeyboardInterrupt:
                    more[0] = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            kernel(a)
            print("fine")"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual((done.stdout, done.returncode), ("fine\n", 0), done.stderr)

    def test_threads_and_forks(self):
        run, found = nki.jit(usual), []

        def work():
            for _ in range(5):
                run.builds.clear()
                built, _ = run.build((data(512, 64),), {})
                found.append(built.program.bytes())
        work()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertTrue(found == 25 * found[:1])
        want = made()
        child = os.fork()
        if not child:
            same = made() == want
            os._exit(0 if same else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
