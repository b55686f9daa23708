"""Calls of nki.isa with arguments that are none: each is recorded or refused, and the recording
goes on. What arguments do when they are looked at (other calls, errors), signals, forks, threads,
and memory that is not there. SOMA_RANDOM=20000 makes a million calls."""
import decimal
import fractions
import gc
import inspect
import os
import random
import signal
import sys
import threading
import unittest
import warnings

import numpy as np
from helper import data
from test_calls import CALLS, OF_ISA, OPTIONAL, SHAPES, TYPES, value

import nki.isa as nisa
import nki.language as nl
from soma import launch, record
from soma.errors import SomaError
from soma.native import _soma

ROUNDS, FIRST = int(os.environ.get("SOMA_RANDOM", "200")), int(os.environ.get("SOMA_FIRST", "0"))
LOOKS = "__index__", "__int__", "__float__", "__bool__", "__eq__", "__hash__", "__len__", \
    "__getitem__", "__iter__", "__contains__", "__array__", "__repr__", "__str__", "__lt__", \
    "__getattribute__"


class Stop(Exception):
    """What an argument says when it is looked at."""


def looked_at(does):
    """An object each of whose looks does something."""
    def look(name):
        def method(self, *given):
            if name == "__getattribute__" and given and given[0].startswith("__"):
                return object.__getattribute__(self, *given)
            return does(name)
        return method
    kind = type("Odd", (), {name: look(name) for name in LOOKS})
    return kind()


def odd_kinds(rnd, tiles):
    """Functions that give something that is no argument."""
    def fail(_):
        raise Stop()

    def again(name):
        """Another call, within this one."""
        nisa.memset(dst=tiles[0], value=1.0)
        return {"__repr__": "x", "__str__": "x", "__bool__": True, "__eq__": True}.get(name, 3)

    def drop(name):
        """The tiles that the call has been given go."""
        del tiles[3:]
        gc.collect()
        return {"__repr__": "x", "__str__": "x", "__bool__": True}.get(name, 1)

    class Text(str):
        def __eq__(self, other):
            return again("__eq__")
        __hash__ = str.__hash__

    class Whole(int):
        def __index__(self):
            raise Stop()

    class Part(float):
        def __float__(self):
            return again("__float__")

    class Liar:
        shape, dtype, storage, ndim, buffer = (64, 40), nl.float32, None, 2, nl.sbuf
    endless = []
    endless.append(endless)
    return [
        lambda: looked_at(fail), lambda: looked_at(again), lambda: looked_at(drop),
        lambda: looked_at(lambda name: NotImplemented), lambda: looked_at(lambda name: None),
        lambda: Text("vector"), lambda: Whole(3), lambda: Part(0.5), Liar, lambda: endless,
        lambda: decimal.Decimal("0.1"), lambda: fractions.Fraction(1, 3), lambda: 1j,
        lambda: b"bytes", lambda: bytearray(8), lambda: memoryview(b"12345678"), lambda: ...,
        lambda: slice(None, 3), lambda: (i for i in range(3)), lambda: np, lambda: Liar,
        lambda: np.zeros((64, 40), object), lambda: np.zeros((), np.float32), lambda: np.str_("x"),
        lambda: np.array([np.nan, np.inf]), lambda: -(1 << 63), lambda: (1 << 64) - 1,
        lambda: 10 ** 400, lambda: "\udcff", lambda: "a" * 100000, lambda: {1: 2}, lambda: {3},
        lambda: (tiles[0],) * 40, lambda: [[tiles[0]]], lambda: other_kernels[0],
        lambda: record.active(), lambda: nisa.memset, lambda: tiles[0][0:0],
        lambda: tiles[0].storage,
        lambda: inspect.currentframe(), lambda: type, lambda: rnd.choice(tiles)]


other_kernels = []  # a tile of a kernel that has ended


def hostile(rnd, tiles, of_hbm):
    """One call."""
    f = rnd.choice(OF_ISA if rnd.random() < 0.7 else CALLS)
    names = [n for n in inspect.signature(f).parameters
             if n not in OPTIONAL or rnd.random() < 0.3]
    odd = odd_kinds(rnd, tiles)
    given = {n: value(rnd, f, n, tiles + tiles[:8], of_hbm, True) if rnd.random() < 0.7 else
             rnd.choice(odd)() for n in names if rnd.random() < 0.97}
    if rnd.random() < 0.05:
        given[rnd.choice(("what", "", "dst ", "\udcff", "data"))] = rnd.choice(odd)()
    first = [given.pop(n) for n in list(given)[:rnd.randrange(12) if rnd.random() < 0.3 else 0]]
    if rnd.random() < 0.02:
        first += [tiles[0]] * rnd.choice((1, 30, 300))
    made = f(*first, **given)
    if made is not None and rnd.random() < 0.5:
        tiles[rnd.randrange(2)][...] = made


def new_tiles(rnd):
    tiles = [nl.ndarray(s, rnd.choice(TYPES), buffer=nl.sbuf) for s in SHAPES]
    nisa.memset(dst=tiles[0], value=0)
    nisa.memset(dst=tiles[1], value=0)
    return tiles


class Hostile(unittest.TestCase):
    def setUp(self):
        self.caught = warnings.catch_warnings()
        self.caught.__enter__()
        warnings.simplefilter("ignore")
        self.addCleanup(self.caught.__exit__, None, None, None)

    def test_calls(self):
        ended = {}

        def kernel(a):
            rnd, out = random.Random(self.seed), nl.ndarray((64, 40), a.dtype, buffer=nl.shared_hbm)
            tiles = new_tiles(rnd)
            other_kernels[:] = [other_kernels[-1] if other_kernels else tiles[0], tiles[0]]
            for _ in range(50):
                try:
                    hostile(rnd, tiles, (a, out))
                    error = None
                except Exception as wrong:
                    error = wrong.__class__.__name__
                ended[error] = ended.get(error, 0) + 1
                if len(tiles) < 5:
                    tiles = new_tiles(rnd)
            t = nl.ndarray((64, 40), a.dtype, buffer=nl.sbuf)
            nisa.memset(dst=t, value=2.0)  # it still records
            nisa.dma_copy(dst=out, src=t)
            return out
        whole = 0
        for self.seed in range(FIRST, FIRST + ROUNDS):
            try:
                whole += launch.build(kernel, (data(64, 40),), {}, "trn2") is not None
            except (SomaError, TypeError, ValueError, ArithmeticError, Stop) as error:
                self.assertTrue(str(error) or isinstance(error, Stop))
        self.assertNotIn("SystemError", ended)
        self.assertNotIn("RecursionError", ended)
        self.assertGreater(ended.get(None, 0), 3 * ROUNDS, ended)
        self.assertGreater(ended.get("Stop", 0), ROUNDS // 2, ended)

    def test_references(self):
        """A call keeps as many references to what it was given as Python's function does, when it
        is refused too."""
        kept = [self.references(wrap) for wrap in (lambda f: f, inspect.unwrap)]
        self.assertEqual(len(kept[0]), len(CALLS))
        for here, python in zip(*kept):
            for (name, kind, n), (_, _, most) in zip(here, python):
                self.assertLess(n, most + 20, (name, kind))

    def references(self, wrap):
        """For each function how many more references there are after 60 calls and more, by what is
        referred to."""
        grown = []

        def kernel(a):
            rnd, out = random.Random(3), nl.ndarray((64, 40), a.dtype, buffer=nl.shared_hbm)
            tiles = new_tiles(rnd)
            watched = [x for x in [kind() for kind in odd_kinds(rnd, tiles)[5:30]] +
                       [nl.add, nl.exp, nisa.vector_engine]
                       if type(x).__name__ != "generator"]
            for f in CALLS:
                names = [n for n in inspect.signature(f).parameters if n not in OPTIONAL]
                given = {n: value(rnd, f, n, tiles[:8], (a, out), True) for n in names}
                counts = [sys.getrefcount(x) for x in watched]
                for i in range(60):
                    for n in names[:1] if i % 2 else names:
                        changed = dict(given, **{n: watched[i % len(watched)]})
                        try:
                            wrap(f)(**changed)
                        except Exception:
                            pass
                        changed = None
                record.active().pending = None
                gc.collect()
                grown.append([(f.__name__, type(x), sys.getrefcount(x) - was)
                              for x, was in zip(watched, counts)])
            return out
        try:
            launch.build(kernel, (data(64, 40),), {}, "trn2")
        except SomaError:
            pass
        return grown

    def test_memory_that_is_not_there(self):
        try:
            from _testcapi import remove_mem_hooks, set_nomemory
        except ImportError:
            raise unittest.SkipTest("this Python has no _testcapi") from None
        refused, without_reason = [], []

        def kernel(a):
            rnd, out = random.Random(5), nl.ndarray((64, 40), a.dtype, buffer=nl.shared_hbm)
            tiles = new_tiles(rnd)
            for f in OF_ISA:
                names = [n for n in inspect.signature(f).parameters if n not in OPTIONAL]
                given = {n: value(rnd, f, n, tiles, (a, out), True) for n in names}
                for n in range(40):
                    stopped = None
                    set_nomemory(n, n + 1)
                    try:
                        f(**given)
                    except Exception as error:
                        stopped = error.__class__
                        # Python's own frames say "error return without exception set"
                        if "returned NULL" in str(error) or "with an exception set" in str(error):
                            without_reason.append((f.__name__, n, error))
                    finally:
                        remove_mem_hooks()
                    refused.append(stopped)
            t = nl.ndarray((64, 40), a.dtype, buffer=nl.sbuf)
            nisa.memset(dst=t, value=2.0)
            nisa.dma_copy(dst=out, src=t)
            return out
        try:
            launch.build(kernel, (data(64, 40),), {}, "trn2")
        except (SomaError, MemoryError):
            pass
        self.assertEqual(without_reason, [])
        self.assertGreater(refused.count(MemoryError), 100)

    def test_signals_within_calls(self):
        """What has returned is recorded, what was interrupted is whole or not there."""
        returned, interrupted, armed = [0], [0], [False]

        def stop(*_):
            if armed[0]:
                raise Stop()

        def kernel(a):
            out = nl.ndarray((64, 40), a.dtype, buffer=nl.shared_hbm)
            t, u = (nl.ndarray((64, 40), a.dtype, buffer=nl.sbuf) for _ in range(2))
            nisa.memset(dst=t, value=1.0)
            nisa.memset(dst=u, value=1.0)
            began = record.active().count
            while interrupted[0] < 60 and returned[0] < 300000:
                try:
                    armed[0] = True
                    nisa.tensor_scalar(dst=t, data=u, op0=nl.add, operand0=0.5)
                    armed[0] = False
                    returned[0] += 1
                except Stop:
                    armed[0] = False
                    interrupted[0] += 1
            counts[:] = [record.active().count - began]
            nisa.dma_copy(dst=out, src=t)
            return out
        counts, before = [], signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.00037)
        try:
            built = launch.build(kernel, (data(64, 40),), {}, "trn2", optimize=0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertTrue(built.program.bytes())
        self.assertGreaterEqual(counts[0], returned[0])
        self.assertLessEqual(counts[0], returned[0] + interrupted[0])
        self.assertGreater(interrupted[0], 0)

    def test_threads_of_a_kernel(self):
        """Their calls are in the kernel's recording, each once."""
        failed, recorded, between = [], [], sys.getswitchinterval()

        def kernel(a):
            out = nl.ndarray((64, 40), a.dtype, buffer=nl.shared_hbm)
            tiles = [nl.ndarray((64, 40), a.dtype, buffer=nl.sbuf) for _ in range(4)]
            for t in tiles:
                nisa.memset(dst=t, value=1.0)
            began = record.active().count

            def work(t):
                try:
                    for i in range(500):
                        nisa.tensor_scalar(dst=t[0:64, i % 8:40], data=t[0:64, i % 8:40],
                                           op0=nl.add, operand0=0.5)
                except Exception as error:
                    failed.append(error)
            threads = [threading.Thread(target=work, args=(t,)) for t in tiles]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            recorded.append(record.active().count - began)
            nisa.dma_copy(dst=out, src=tiles[3])
            return out
        sys.setswitchinterval(1e-6)
        try:
            launch.build(kernel, (data(64, 40),), {}, "trn2")
        finally:
            sys.setswitchinterval(between)
        self.assertEqual((failed, recorded), ([], [2000]))

    def test_a_fork_within_a_kernel(self):
        """The child goes on with a recording of its own."""
        children = []

        def kernel(a, fork):
            out = nl.ndarray((64, 40), a.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((64, 40), a.dtype, buffer=nl.sbuf)
            nisa.memset(dst=t, value=1.0)
            for i in range(200):
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=0.5)
                if fork and i == 100:
                    children.append(os.fork())
            nisa.dma_copy(dst=out, src=t)
            return out
        try:
            built = launch.build(kernel, (data(64, 40), True), {}, "trn2").program.bytes()
            alone = launch.build(kernel, (data(64, 40), False), {}, "trn2").program.bytes()
        except BaseException:
            built, alone = 0, 1
        if children == [0]:
            os._exit(0 if built == alone else 1)
        self.assertEqual(os.waitpid(children[0], 0)[1], 0)
        self.assertEqual(built, alone)


if __name__ == "__main__":
    unittest.main()
