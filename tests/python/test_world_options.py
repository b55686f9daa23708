"""Options and arguments of worlds, and what is wrong with them."""
import re
import traceback
import unittest

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import soma
from helper import KernelCase
from nki.collectives import ReplicaGroup
from soma.errors import SomaError


@nki.jit
def total(x, group):
    s, d = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    nisa.dma_copy(dst=s, src=x)
    ncc.all_reduce([s], [d], group, nl.add)
    return d


class Options(KernelCase):
    def test_kernels_are_built_for_the_instance(self):
        x, group = np.ones((2, 4, 8), np.float32), ReplicaGroup([[0, 1]])
        w = soma.world(ranks=2, instance="trn1.32xlarge")
        r = w.run(total, lambda rank: dict(x=x[rank], group=group))
        np.testing.assert_array_equal(r[1].result, x.sum(0))
        self.assertEqual((r[0].built.target, r.instance), ("trn1", "trn1.32xlarge"))
        asks = nki.jit(total.function, platform_target="trn2")
        with self.assertRaisesRegex(SomaError, "trn1.32xlarge is of trn1, but the target is trn2"):
            w.run(asks, lambda rank: dict(x=x[rank], group=group))

    def test_wrong_arguments(self):
        x, group = np.ones((2, 4, 8), np.float32), ReplicaGroup([[0, 1]])
        self.assertEqual(soma.world(ranks=np.int64(2)).ranks, 2)
        for options, error, text in (
                ({"ranks": 0}, ValueError, "ranks=0: it is a number of ranks, from 1 to 4096"),
                ({"ranks": True}, TypeError, "ranks=True: it is a number of ranks"),
                ({"ranks": 2, "threads": -1}, ValueError, "threads=-1: it is a number of threads"),
                ({"ranks": 5000}, ValueError, "ranks=5000: it is a number of ranks, from 1"),
                ({"ranks": "2"}, TypeError, "ranks='2': it is a number"),
                ({"ranks": 2, "algorithm": 5}, TypeError, "algorithm=5: it is a name"),
                ({"ranks": 2, "instance": 5}, TypeError, "instance=5: it is a name"),
                ({"ranks": 2, "target": 3}, TypeError, 'target=3: it is a name such as "trn2"'),
                ({"ranks": 2, "foo": 1}, TypeError,
                 "there is no option foo; there are ranks, lnc, instance, algorithm, target, che"),
                ({"ranks": 2, "checks": "al"}, ValueError, "no check is called 'al'"),
                ({"ranks": 2, "schedule": "all"}, SomaError, "all schedules of a world"),
                ({"ranks": 2, "algorithm": "tree"}, SomaError, "unknown algorithm 'tree'"),
                ({"ranks": 2, "instance": "trn9"}, SomaError, "unknown instance 'trn9'; there are"),
                ({"ranks": 2, "instance": "trn1.32xlarge", "target": "trn2"}, SomaError,
                 "trn1.32xlarge is of trn1, but the target is trn2")):
            with self.assertRaisesRegex(error, text):
                soma.world(**options)
        for name in ("algorithm", "instance"):
            with self.assertRaisesRegex(SomaError, "unknown %s ''; there are" % name):
                soma.world(ranks=2, **{name: ""}).run(total, dict(x=x[0], group=group))
        w = soma.world(ranks=2)
        for call in (lambda rank: dict(x=x[2 * rank], group=group),
                     lambda rank: dict(x=x[0] if rank == 0 else "no", group=group)):
            with self.assertRaises(Exception) as raised:
                w.run(total, call)
            self.assertIn("for rank 1 of the world", "".join(
                traceback.format_exception_only(type(raised.exception), raised.exception)))
        for what, given, text in (
                (lambda x: x, {}, "it runs a kernel of @nki.jit, or a program"),
                (total, lambda rank: (x[rank], group) if rank else dict(x=x[0], group=group),
                 "arguments of rank 1: a tuple; they are a dict"),
                (total, lambda rank: None, "arguments of rank 0: a NoneType")):
            with self.assertRaisesRegex(TypeError, text):
                w.run(what, given)

    def test_a_picture(self):
        x, group = np.ones((2, 4, 8), np.float32), ReplicaGroup([[0, 1]])
        given = [dict(x=x[r], group=group) for r in range(2)]
        run = soma.world(ranks=2, record=True).run(total, given)
        picture = run.svg()
        for word in ("<svg ", ">rank 0<", ">rank 1<", ">collectives<", ">all_reduce<", ">cc0<"):
            self.assertIn(word, picture)
        self.assertEqual(picture, run.svg())
        # each rank's one wait for what the other pushed, in each step
        arrows = re.findall(r"<path d=\"M([\d.]+) (\d+)L([\d.]+) (\d+)\"/>", picture)
        self.assertGreaterEqual(len(arrows), 2)
        self.assertTrue(all(float(sent) < float(came) for sent, _, came, _ in arrows))
        self.assertEqual({int(a) < int(b) for _, a, _, b in arrows}, {True, False})
        self.assertNotIn("cc0", run.svg(rows=("collectives",)))
        two = soma.world(ranks=2, record=True).run(total[2], given).svg()
        self.assertIn(">rank 1 core 1<", two)
        with self.assertRaisesRegex(ValueError, "rows=.*there are tensor, vector"):
            run.svg(rows=("pe",))
        for width in (180, "wide", None):
            with self.assertRaisesRegex(ValueError, "width=.*: it is a number of pixels, more"):
                run.svg(width=width)
        run = soma.world(ranks=2).run(total, given)
        for call in (run.svg, run.trace, run.page):
            with self.assertRaisesRegex(SomaError, r"soma.world\(ranks=2, record=True\)"):
                call()


if __name__ == "__main__":
    unittest.main()
