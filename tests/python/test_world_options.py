"""Options and arguments of worlds, and what is wrong with them."""
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


if __name__ == "__main__":
    unittest.main()
