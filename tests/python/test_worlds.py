"""Kernels with collectives on the ranks of a world, against NumPy; scripts that are started once a
rank."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import soma
from helper import KernelCase
from nki.collectives import ReplicaGroup
from soma.errors import KernelError, SomaError

COMMAND = os.path.join(os.path.dirname(os.environ.get("SOMA_LIB", "build/libsoma.so")), "soma-nki")


def data(*shape, dtype=np.float32, seed=0):
    """Whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(dtype)


def hbm(shape, dtype, where=None):
    return nl.ndarray(tuple(shape), dtype, buffer=where or nl.shared_hbm)


def of(call, times=1, over=1, where=None, sbuf=False):
    """A kernel that gives call(src, dst, group) of a copy of x; dst has times / over as many
    rows."""
    @nki.jit
    def kernel(x, group):
        rows = x.shape[0] * times // over
        out = hbm((rows,) + x.shape[1:], x.dtype)
        if sbuf:
            src = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            dst = nl.ndarray((rows,) + x.shape[1:], x.dtype, buffer=nl.sbuf)
        else:
            src, dst = hbm(x.shape, x.dtype, where), hbm(out.shape, x.dtype, where)
        nisa.dma_copy(dst=src, src=x)
        call(src, dst, group)
        nisa.dma_copy(dst=out, src=dst)
        return out
    return kernel


def run(kernel, x, group, ranks=None, **options):
    w = soma.world(ranks=ranks or len(x), **options)
    return w.run(kernel, lambda rank: dict(x=x[rank], group=group)).results


class Operations(KernelCase):
    def equal(self, got, want):
        for rank in range(len(got)):
            np.testing.assert_array_equal(got[rank], want(rank), "rank %d" % rank)

    def test_each_operation_gives_what_numpy_gives(self):
        for n in (2, 3, 4, 8):
            all_ranks, rows = ReplicaGroup([list(range(n))]), 2 * n
            x = data(n, rows, 24, seed=n)

            def part(a, i):
                return a[2 * i:2 * i + 2]
            for kernel, want in (
                (of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add)), lambda r: x.sum(0)),
                (of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.maximum)), lambda r: x.max(0)),
                (of(lambda s, d, g: ncc.all_gather([s], [d], g, 0), n),
                 lambda r: x.reshape(-1, 24)),
                (of(lambda s, d, g: ncc.reduce_scatter([s], [d], g, 0, nl.add), 1, n),
                 lambda r: part(x.sum(0), r)),
                (of(lambda s, d, g: ncc.all_to_all([s], [d], g, 0)),
                 lambda r: np.concatenate([part(a, r) for a in x])),
            ):
                self.equal(run(kernel, x, all_ranks), want)

    def test_in_sbuf(self):
        n, group = 4, ReplicaGroup([[0, 1, 2, 3]])
        x = data(n, 32, 40)
        self.equal(run(of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.minimum), sbuf=True), x,
                       group), lambda r: x.min(0))
        self.equal(run(of(lambda s, d, g: ncc.all_gather([s], [d], g, 0), n, sbuf=True), x, group),
                   lambda r: x.reshape(-1, 40))

        @nki.jit
        def beside(x, group):
            t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            g = nl.ndarray((x.shape[0], 4 * x.shape[1]), x.dtype, buffer=nl.sbuf)
            out = hbm(g.shape, x.dtype)
            nisa.dma_copy(dst=t, src=x)
            ncc.all_gather([t], [g], group, 1)
            nisa.dma_copy(dst=out, src=g)
            return out
        self.equal(run(beside, x, group), lambda r: np.concatenate(list(x), 1))

    def test_the_order_in_a_list_is_that_of_the_parts(self):
        x, group = data(4, 4, 16), ReplicaGroup([[3, 0], [1, 2]])
        kernel = of(lambda s, d, g: ncc.all_gather([s], [d], g, 0), 2)
        first, second = np.concatenate((x[3], x[0])), np.concatenate((x[1], x[2]))
        got = run(kernel, x, group)
        self.equal(got, lambda r: first if r in (0, 3) else second)

    def test_pairs_and_rings(self):
        x = data(4, 8, 16)

        def permuted(s, d, g):
            nisa.dma_copy(dst=d, src=s)
            ncc.collective_permute([s], [d], [(0, 2), (2, 3)])
        self.equal(run(of(permuted), x, ReplicaGroup([[0, 1, 2, 3]])),
                   lambda r: x[{2: 0, 3: 2}.get(r, r)])
        ring = of(lambda s, d, g: ncc.collective_permute_implicit([[s]], [[d]], g))
        before = {2: 0, 0: 3, 3: 1, 1: 2}  # in the list [1, 3, 0, 2]
        self.equal(run(ring, x, ReplicaGroup([[1, 3, 0, 2]])), lambda r: x[before[r]])
        reduced = of(lambda s, d, g: ncc.collective_permute_implicit_reduce(
            [[s]], [[s]], [[d]], g, nl.add))
        self.equal(run(reduced, x, ReplicaGroup([[1, 3, 0, 2]])), lambda r: 2 * x[before[r]])
        halves = of(lambda s, d, g: ncc.collective_permute_implicit(
            [[s[0:4]], [s[4:8]]], [[d[0:4]], [d[4:8]]], g, [0, 1]))
        self.equal(run(halves, x, ReplicaGroup([[0, 1, 2, 3]])), lambda r: x[r - 1])

    def test_types_views_and_own_memory(self):
        group = ReplicaGroup([[0, 1]])
        for dtype in (np.int32, np.uint8, np.float16):
            x = data(2, 4, 32, dtype=np.int32).astype(dtype) % 7
            kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
            self.equal(run(kernel, x, group), lambda r: (x[0] + x[1]).astype(dtype))
        x = data(2, 4, 32)
        self.equal(run(of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add),
                          where=nl.private_hbm), x, group), lambda r: x[0] + x[1])
        bits = of(lambda s, d, g: ncc.all_gather([s.view(nl.bfloat16)], [d.view(nl.bfloat16)], g,
                                                 0), 2)
        self.equal(run(bits, x, group), lambda r: x.reshape(8, 32))

        def columns(s, d, g):
            nisa.dma_copy(dst=d, src=s)
            ncc.all_reduce([s[:, 8:24]], [d[:, 8:24]], g, nl.add)
        want = [a.copy() for a in x]
        for a in want:
            a[:, 8:24] = x[:, :, 8:24].sum(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.equal(run(of(columns), x, group), lambda r: want[r])

        def several(s, d, g):
            ncc.all_reduce([s[0:1], s[1:4]], [d[0:1], d[1:4]], g, nl.add)
        self.equal(run(of(several), x, group), lambda r: x[0] + x[1])

    def test_two_cores(self):
        x, group = data(4, 8, 64), ReplicaGroup([[0, 1, 2, 3]])
        whole = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))[2]
        self.equal(run(whole, x, group), lambda r: x.sum(0))

        @nki.jit
        def halves(x, group):
            out, half = hbm(x.shape, x.dtype), nl.ds(4 * nl.program_id(0), 4)
            t = nl.ndarray((4, 64), x.dtype, buffer=nl.sbuf)
            s = nl.ndarray((4, 64), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x[half])
            ncc.all_reduce([t], [s], group, nl.add)
            nisa.dma_copy(dst=out[half], src=s)
            return out
        self.equal(run(halves[2], x, group), lambda r: x.sum(0))

        @nki.jit
        def of_one_core(x, group):
            out, dst, src = (hbm(x.shape, x.dtype) for _ in range(3))
            if nl.program_id(0) == 0:
                nisa.dma_copy(dst=src, src=x)
                ncc.all_reduce([src], [dst], group, nl.add)
                nisa.dma_copy(dst=out, src=dst)
            return out
        self.equal(run(of_one_core[2], x, group), lambda r: x.sum(0))

    def test_every_rank_has_the_same_bits(self):
        x = np.random.default_rng(4).standard_normal((5, 16, 33)).astype(np.float32)
        got = run(of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add)), x,
                  ReplicaGroup([list(range(5))]))
        for g in got:
            self.same(g, x.sum(0), 1e-4, 1e-4)
            self.assertEqual(g.tobytes(), got[0].tobytes())

    def test_work_goes_on_beside_it(self):
        def times(wait):
            @nki.jit
            def kernel(x, group):
                src, dst, out = (hbm(x.shape, x.dtype) for _ in range(3))
                nisa.dma_copy(dst=src, src=x)
                ncc.all_reduce([src], [dst], group, nl.add)
                t = nl.ndarray((128, 512), x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=t, src=(dst if wait else x)[0:128])
                for _ in range(40):
                    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=1.0)
                nisa.dma_copy(dst=out[0:128], src=t)
                return out, dst
            x = np.ones((512, 512), np.float32)
            w = soma.world(ranks=2)
            return w.run(kernel, dict(x=x, group=ReplicaGroup([[0, 1]]))).time_ns
        self.assertLess(times(False), 0.8 * times(True))


class Worlds(KernelCase):
    def test_ranks_that_are_alike_share_a_build(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x = data(8, 4, 8)
        run(kernel, x, ReplicaGroup([list(range(8))]))
        self.assertEqual(len(kernel.builds), 1)

    def test_a_world_runs_again_and_runs_programs(self):
        w = soma.world(ranks=2)
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x, group = data(2, 4, 8), ReplicaGroup([[0, 1]])
        for k in range(3):
            r = w.run(kernel, [dict(x=a + k, group=group) for a in x])
            np.testing.assert_array_equal(r[1].result, x.sum(0) + 2 * k)
        self.assertEqual((len(r), r[0].time_ns), (2, r.stats[0].time_ns))
        self.assertLessEqual(r.stats[1].time_ns, r.time_ns)
        text = """
        target trn2
a       tensor float32[4, 8], input
b       tensor float32[4, 8], output
g       group [[1, 0]]
done    sem
section gpsimd
        all_reduce dsts=[b], srcs=[a], group=g, op=add  $done++
        nop  $done>=1
        halt
"""
        p = soma.Machine("trn2").assemble(text)
        r = w.run(p, lambda rank: {"a": x[rank]})
        np.testing.assert_array_equal(r[0].out["b"], x.sum(0))
        np.testing.assert_array_equal(w.run([p, p], [{"a": x[0]}, {"a": x[0]}])[1].out["b"],
                                      2 * x[0])

    def test_links_and_what_ifs(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x, group = data(16, 4, 512), ReplicaGroup([list(range(16))])
        w = soma.world(ranks=16)  # of 8 a device: devices 0 and 1 of a torus

        def go():
            r = w.run(kernel, lambda rank: dict(x=x[rank], group=group))
            np.testing.assert_array_equal(r[9].result, x.sum(0))
            return r, {(a.start, a.end): a for a in r.links}
        before, links = go()
        self.assertEqual(before.instance, "trn2.48xlarge")
        self.assertEqual((len(links), links[0, 1].rate), (64, 128.0))
        self.assertGreaterEqual(links[0, 1].bytes, 8 * 4 * 512 * 4)
        self.assertEqual((links[0, 1].bytes, links[1, 2].messages), (links[1, 0].bytes, 0))
        w.delay_rank(1, 3e3)
        late, _ = go()
        self.assertGreater(late.time_ns, before.time_ns + 2900)
        w.fail_link(0, 1)
        far, links = go()
        self.assertEqual((links[0, 1].bytes, links[1, 0].bytes), (0, 0))
        self.assertIn("<link 0-", repr(max(far.links, key=lambda a: a.bytes)))
        self.assertRaises(ValueError, w.delay_rank, 16, 1)
        self.assertRaises(ValueError, w.fail_link, -3, 1)
        self.assertRaises(ValueError, w.fail_link, 0, 1, -1)
        for factor in -1, 1.5, 0.0005, float("nan"), float("inf"), "half", None:
            with self.assertRaisesRegex(ValueError, "factor="):
                w.slow_link(0, 1, factor)
        w.fail_link(0, 5)
        for call in w.run, w.check:
            with self.assertRaisesRegex(SomaError, "no link 0-5 in trn2.48xlarge; device 0 has l"):
                call(kernel, lambda rank: dict(x=x[rank], group=group))

    def test_collectives_are_told(self):
        @nki.jit
        def kernel(x, group):
            a, b, c = hbm(x.shape, x.dtype), hbm(x.shape, x.dtype), hbm((4 * 64, 128), x.dtype)
            nisa.dma_copy(dst=a, src=x)
            ncc.all_reduce([a], [b], group, nl.add)
            ncc.all_gather([b], [c], group, 0)
            return c
        x = data(4, 64, 128)
        r = soma.world(ranks=4).run(
            kernel, lambda rank: dict(x=x[rank], group=ReplicaGroup([[0, 1, 2, 3]])))
        self.assertEqual([(c.rank, c.op, c.bytes, c.ranks) for c in r.collectives[2:4]],
                         [(1, "all_reduce", 32768, 4), (1, "all_gather", 4 * 32768, 4)])
        first, second = r.collectives[:2]
        self.assertLessEqual(first.start_ns + first.time_ns, second.start_ns + second.time_ns)
        self.assertAlmostEqual(first.algbw, first.bytes / first.time_ns, 3)
        self.assertAlmostEqual(first.busbw, 1.5 * first.algbw, 3)
        self.assertRegex(repr(first), r"rank 0: all_reduce by \w+.* of 4 ranks, 32768 bytes.*"
                                      r"test_worlds.py:\d+")

    def test_arguments_that_a_kernel_writes_are_written(self):
        @nki.jit
        def kernel(x, group):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ncc.all_reduce([x], [x], group, nl.add)
            return x
        x = data(2, 4, 8)
        want = x.sum(0)
        run(kernel, x, ReplicaGroup([[0, 1]]))
        np.testing.assert_array_equal(x, [want, want])

    def test_recorded_ranks(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x, group = data(3, 4, 64), ReplicaGroup([[0, 1, 2]])
        given = lambda rank: dict(x=x[rank], group=group)
        w = soma.world(ranks=3, record=True)
        plain, got = soma.world(ranks=3).run(kernel, given), w.run(kernel, given)
        self.assertEqual(got.hash, plain.hash)
        for text in (got[1].timeline(100), got.timeline(100)):
            for row in ("\ngpsimd ", "\ncc0 ", "\nqcc0 "):
                self.assertIn(row, text)
        events = json.loads(got[2].trace())["traceEvents"]
        names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertLessEqual({"cc0: DMA triggers", "cc0 sequencer: waits", "qcc0"}, names)
        self.assertIn('"ccs":["cc0",', got[0].page())
        whole = json.loads(got.trace())["traceEvents"]
        processes = {e["args"]["name"] for e in whole if e["name"] == "process_name"}
        self.assertLessEqual({"rank %d engines" % r for r in range(3)}, processes)
        over = len(whole) - sum(len(json.loads(got[r].trace())["traceEvents"]) for r in range(3))
        self.assertGreater(over, 0)  # the arrows from rank to rank
        self.assertEqual({e["ph"] for e in whole[-over:]}, {"s", "f"})
        self.assertEqual(w.run(kernel, given)[1].trace(), got[1].trace())
        self.assertEqual(got.page(title="two").count('"title":"two"'), len(got))
        self.assertEqual(got.page().count('"title":"kernel"'), len(got))
        with self.assertRaisesRegex(SomaError, r"tile\('t'\): a tile of a rank is not built"):
            got[0].tile("t")
        for call in (got[0].explain, got[0].critical_path):
            self.assertRaisesRegex(SomaError, "causes of the run were not kept", call)
        caused = soma.world(ranks=3, causes=True, record=True).run(kernel, given)
        path = caused[1].critical_path()
        self.assertGreater(len({s["rank"] for s in path} - {None}), 0)
        self.assertAlmostEqual(path[-1]["end_ns"], caused[1].time_us * 1e3, 3)
        self.assertRegex(caused[1].explain(), "rank [02] .*on the way to another rank")
        with self.assertRaisesRegex(SomaError, r"recorded: soma\.world\(ranks=3, record=True\)"):
            plain[0].trace()
        with self.assertRaisesRegex(SomaError, r"not recorded: soma.world\(ranks=3, record=True\)"):
            plain.trace()

    def test_groups_of_one_rank_need_no_world(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x, one = data(4, 8), ReplicaGroup([[0]])
        for k in (kernel, kernel[2]):
            np.testing.assert_array_equal(k(x, one), x)
        self.assertGreater(kernel.time(x, one), 0)
        self.assertEqual(kernel.check(x, one), [])
        with self.assertRaisesRegex(SomaError, "has collectives: its trace is built for"):
            kernel.run(x, one)
        self.assertIn("wait_start", soma.world(ranks=1).run(
            kernel, dict(x=x, group=one))[0].run.program.source())

    def test_checks_of_all_ranks(self):
        def kernel(x, late, group):
            own, s, d = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
                         for _ in range(3))
            nisa.dma_copy(dst=s, src=x)
            ncc.all_reduce([s], [d], group, nl.add)
            t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t[0:late], src=d[0:late])
            nisa.dma_copy(dst=own, src=t)
            return own
        kernel, world, group = nki.jit(kernel), soma.world(ranks=2), ReplicaGroup([[0, 1]])
        given = dict(x=np.ones((4, 8), np.float32), group=group)
        self.assertEqual(world.check(kernel, dict(given, late=4), schedules=3), [])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, = world.check(kernel, dict(given, late=2), schedules=2)
            run = soma.world(ranks=2, checks="all").run(kernel, dict(given, late=2))
        self.assertEqual((found.check, found.ranks, [f.ranks for f in run.findings]),
                         ("uninit", [0, 1], [[0, 1]]))
        self.assertRegex(found.text, r"^rank 0: .*: uninit: a transfer stores .*(?s:.*)\n"
                                     r"  also in rank 1$")
        with self.assertRaisesRegex(SomaError, "all schedules of a world of ranks are not built"):
            world.check(kernel, dict(given, late=4), schedules="all")

    def test_outside_of_a_world(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x = data(4, 8)
        for call in (kernel, kernel.time, kernel.check, kernel.run):
            with self.assertRaisesRegex(
                    KernelError, r"kernel\(\) has collectives of 3 ranks: run it in a world, as "
                    r"soma.world\(ranks=3\).*soma-nki -n 3"):
                call(x, ReplicaGroup([[2, 1, 0]]))

    def test_a_world_that_does_not_end_can_be_interrupted(self):
        script = """
            import os, signal, threading, time, soma
            text = "target trn2\\nsection gpsimd\\nagain: nop\\njmp again\\n"
            w, p = soma.world(ranks=2), soma.Machine("trn2").assemble(text)
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                w.run(p)
            except KeyboardInterrupt:
                print("interrupted")
        """
        done = subprocess.run([COMMAND, "-c", textwrap.dedent(script)], timeout=60, text=True,
                              capture_output=True, env=dict(os.environ, SOMA_PYTHON=sys.executable))
        self.assertEqual((done.returncode, done.stdout), (0, "interrupted\n"), done.stderr)

    def test_ranks_whose_memories_differ(self):
        one = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))

        @nki.jit
        def kernel(x, group, inside):
            src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf if inside else nl.shared_hbm)
                        for _ in range(2))
            nisa.dma_copy(dst=src, src=x)
            ncc.all_reduce([src], [dst], group, nl.add)
            out = hbm(x.shape, x.dtype)
            nisa.dma_copy(dst=out, src=dst)
            return out
        x, group = data(2, 4, 8), ReplicaGroup([[0, 1]])
        w = soma.world(ranks=2)
        for first, text in ((0, r"\] \(.* but rank 1 has .*\] in sbuf \("),
                            (1, r"\] in sbuf \(.* but rank 1 has .*\d\] \(")):
            with self.assertRaisesRegex(SomaError, text):
                w.run(kernel, lambda r: dict(x=x[r], group=group, inside=(r + first) % 2))
        np.testing.assert_array_equal(  # the world goes on
            w.run(one, lambda r: dict(x=x[r], group=group))[0].result, x.sum(0))

    def test_the_example_of_the_manual(self):
        with open("python/README.md") as f:
            code = f.read().split("<!-- example: world -->")[1].split("```")[1]
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(code[len("python\n"):], dict(globals()))
        self.assertRegex(told.getvalue(), r"^True [\d.]+ \d+\n")

    def test_what_is_wrong(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x = data(4, 4, 8)
        for group, want in (([[0, 1, 2, 3, 4]], "4"), ([[0, 1]], "2"), ([[1, 2, 3]], "0")):
            with self.assertRaisesRegex(SomaError, want):
                run(kernel, x, ReplicaGroup(group), 4)
        with self.assertRaisesRegex(SomaError, "all_gather|all_reduce"):
            gather = of(lambda s, d, g: ncc.all_gather([s], [d], g, 0), 2)
            w = soma.world(ranks=2)
            p, q = (k.build((), dict(x=x[0], group=ReplicaGroup([[0, 1]])))[0].program
                    for k in (kernel, gather))
            w.run([p, q], {"x": x[0]})
        with self.assertRaisesRegex(SomaError, "trn2.3xlarge has 8 cores, but 9 ranks of 1 need 9"):
            run(kernel, [x[0]] * 9, ReplicaGroup([[0, 1]]), instance="trn2.3xlarge")
        with self.assertRaisesRegex(ValueError, "arguments of 1 ranks for a world of 2"):
            soma.world(ranks=2).run(kernel, [{}])
        with self.assertRaisesRegex(ValueError, "ranks=0"):
            soma.world(ranks=0)


SCRIPT = """
    import sys
    import numpy as np
    import nki, nki.isa as nisa, nki.language as nl, nki.collectives as ncc, soma, os

    def body(x, op):
        src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(soma.ranks()))]), op)
        return dst

    @nki.jit
    def total(x):
        return body(x, nl.add)

    @nki.jit
    def largest(x):
        return body(x, nl.maximum)

    r = soma.rank()
    assert os.environ["RANK"] == str(r) and os.environ["WORLD_SIZE"] == str(soma.ranks())
    what = sys.argv[1]
    if what == "ends" and r == 1:
        sys.exit(0)
    if what == "fails" and r == 1:
        raise ValueError("my own")
    if what == "says":
        for i in range(200):
            print("my own line %d" % i, file=sys.stderr)
        sys.stdout.write("half a line")
        sys.exit(0)
    if what == "checks":
        total.check(np.zeros((4, 8), np.float32))
    if what == "ends first" and r == 0:
        sys.exit(0)
    x = np.full((4, 8), r + 1, np.float32)
    if what == "differs" and r == 1:
        largest(x)
    y = total(x)
    z = largest(y + r)
    if what == "all":
        run = total.run(x)
        assert run.result[0, 0] == y[0, 0]
        for look in (run.timeline, run.explain, run.critical_path, run.idle_gaps) if r else ():
            try:
                look()
                sys.exit("rank %d has what rank 0 keeps" % r)
            except soma.SomaError as error:
                assert "in the process of rank 0, which has its timeline" in str(error)
    print("rank %d of %d: %g %g\\n" % (r, soma.ranks(), y[0, 0], z[0, 0]), end="", flush=True)
"""


class Processes(unittest.TestCase):
    def start(self, what, ranks=3):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script.py")
            with open(script, "w") as f:
                f.write(textwrap.dedent(SCRIPT))
            done = subprocess.run([COMMAND, "-n", str(ranks), script, what], timeout=120,
                                  capture_output=True, text=True,
                                  env=dict(os.environ, SOMA_PYTHON=sys.executable))
        return done.returncode, done.stdout, done.stderr

    def test_a_script_that_is_started_once_a_rank(self):
        status, out, errors = self.start("all")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(sorted(out.split("\n"))[1:],
                         ["rank %d of 3: 6 8" % r for r in range(3)])
        self.assertEqual(self.start("all", 1)[:2], (0, "rank 0 of 1: 1 1\n"))

    def test_ranks_that_end_or_do_something_else(self):
        status, out, errors = self.start("ends")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(errors, r"rank 1 has ended, and ranks 0, 2 wait in total\(\) "
                                 r"\(.*script.py:\d+\), call 1")
        status, _, errors = self.start("fails")
        self.assertEqual(status, 1)
        self.assertRegex(errors, "(?m)^rank 1: ValueError: my own$")
        status, _, errors = self.start("ends first")
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"rank 0 has ended, and rank 1 waits for it in total\(\) \(.*:\d+")
        status, _, errors = self.start("differs")
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"rank 0 calls total\(\) \(.*:\d+\), but rank 1 calls largest\(\) "
                                 r"\(.*:\d+\): call 1 of a kernel")

    def test_lines_of_ranks_stay_whole_and_are_named(self):
        status, out, errors = self.start("says")
        self.assertEqual((status, out), (0, 3 * "half a line\n"))
        for r in range(3):
            mine = [line for line in errors.splitlines() if line.startswith("rank %d: " % r)]
            self.assertEqual(mine, ["rank %d: my own line %d" % (r, i) for i in range(200)])
        self.assertEqual(len(errors.splitlines()), 600)

    def test_checks_of_one_rank_say_what_to_do(self):
        status, _, errors = self.start("checks", 2)
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"rank 1: .*KernelError: total\(\) has collectives of 2 "
                                 "ranks, and this call is of one rank alone: "
                                 ".*soma-nki -n 2 --check SCRIPT")

    def test_wrong_numbers_of_ranks(self):
        for words in (["-n"], ["-n", "x", "a.py"], ["-n", "0", "a.py"], ["-n", "2"]):
            done = subprocess.run([COMMAND] + words, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("-n needs a number of ranks, 1 to 256, and a script", done.stderr)
        done = subprocess.run([COMMAND, "--threads", "1", "-n", "2", "none.py"],
                              capture_output=True, text=True)
        self.assertIn("-n RANKS comes first: soma-nki -n 2", done.stderr)
        done = subprocess.run([COMMAND, "--timing-only", "-n", "2", "none.py"], capture_output=True,
                              text=True)
        self.assertEqual(sorted(done.stderr.splitlines()),
                         ["rank %d: soma-nki: no file none.py" % r for r in range(2)])


if __name__ == "__main__":
    unittest.main()
