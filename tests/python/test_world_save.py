"""Worlds that are saved on their way."""
import os
import tempfile
import unittest

import nki.collectives as ncc
import nki.language as nl
import soma
from nki.collectives import ReplicaGroup
from soma.errors import SomaError
from test_worlds import data, of

PROGRAM = "target trn2\nsection gpsimd\n" + "nop\n" * 40 + "halt\n"


class Saved(unittest.TestCase):
    def test_a_saved_world_ends_as_the_world(self):
        kernel = of(lambda s, d, g: ncc.all_reduce([s], [d], g, nl.add))
        x, group = data(4, 8, 64), ReplicaGroup([[0, 1, 2, 3]])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tp4.world")
            run = soma.world(ranks=4).run(kernel, lambda r: dict(x=x[r], group=group),
                                          save=(6000, path))
            again = soma.load_world(path, threads=1)
            self.assertEqual((again.hash, again.time_ns, len(again)), (run.hash, run.time_ns, 4))
            for r in range(4):
                self.assertTrue(any((a == x.sum(0)).all() for a in again[r].out.values()))
            with open(path, "r+b") as f:
                f.seek(300)
                f.write(b"x")
            with self.assertRaisesRegex(SomaError, "the saved world is damaged"):
                soma.load_world(path)
        for ns in -1, "5", float("nan"):
            with self.assertRaisesRegex(ValueError, "save=%r: expected a time" % (ns,)):
                soma.world(ranks=4).run(kernel, {}, save=(ns, path))
        for save in path, (5000,), 5000:
            with self.assertRaisesRegex(TypeError, r"save=.*: it is \(nanoseconds, path\)"):
                soma.world(ranks=4).run(kernel, {}, save=save)

    def test_checks_go_on(self):
        text = """
        target trn2
a       tensor float32[4, 8], input
b       tensor float32[4, 8]
c       tensor float32[4, 8], output
g       group [[1, 0]]
done    sem
moved   sem
q       queue dge=none
section gpsimd
        all_reduce dsts=[b], srcs=[a], group=g, op=add  $done++
        dma_copy c, b, queue=q $moved
        nop  $moved>=16
        halt
"""
        p, a = soma.Machine("trn2").assemble(text), data(2, 4, 8)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.world")
            w = soma.world(ranks=2, checks="race,uninit", causes=True)
            run = w.run(p, lambda r: {"a": a[r]}, save=(1500, path))
            self.assertEqual(run.findings[0].ranks, [0, 1])
            again = soma.load_world(path)
            self.assertEqual([f.text for f in again.findings], [f.text for f in run.findings])
            with self.assertRaisesRegex(SomaError, "checks are chosen when a run starts: this one "
                                        "was saved with uninit,race"):
                soma.load_world(path, checks="all")

    def test_on_a_hypothetical_machine(self):
        target = {"base": "trn2", "dma_engines": 4}
        p = soma.Machine(target).assemble(PROGRAM)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.world")
            run = soma.world(ranks=2, target=target).run(p, {}, save=(5, path))
            for given in target, None:
                again = soma.load_world(path, target=given)
                self.assertEqual(again.hash, run.hash)
                self.assertIn("hypothetical trn2, dma_engines=4", repr(again))
            with self.assertRaisesRegex(SomaError, "of trn2, but the target is trn1"):
                soma.load_world(path, target="trn1")


if __name__ == "__main__":
    unittest.main()
