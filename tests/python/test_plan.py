"""The program of a rank with those of its CC sequencers, without a run."""
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
    src = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    dst = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], group, nl.add)
    return dst


class Plans(KernelCase):
    def test_a_kernel_and_a_program(self):
        given = dict(x=np.ones((4, 8), np.float32), group=ReplicaGroup([[0, 1]]))
        ring = soma.plan(total, given, ranks=2, rank=1, algorithm="ring").source()
        mesh = soma.plan(total, given, ranks=2, rank=1, algorithm="mesh").source()
        for source in (ring, mesh):
            self.assertIn("section cc0", source)
        self.assertNotEqual(ring, mesh)
        w = soma.world(ranks=2)
        texts = [w.plan(total, given, rank).source() for rank in range(2)]
        self.assertEqual(w.run(total, given)[1].result[0, 0], 2)
        programs = [soma.Machine("trn2").assemble(text) for text in texts]
        again = soma.plan(programs, ranks=2)  # its blocks are its own
        self.assertEqual(again.source().count("wait_start"), texts[0].count("wait_start"))
        made = w.run(programs, lambda rank: {"x": given["x"]})
        self.assertEqual(made.collectives[0].algorithm, "section")

    def test_what_is_refused(self):
        given = dict(x=np.ones((4, 8), np.float32), group=ReplicaGroup([[0, 1]]))
        for kind, text, options in ((ValueError, "from 0 to 1", dict(ranks=2, rank=2)),
                                    (TypeError, "the number of a rank", dict(ranks=2, rank="0")),
                                    (SomaError, "unknown algorithm", dict(ranks=2, algorithm="x")),
                                    (SomaError, "the world has 0..0", dict(ranks=1))):
            with self.assertRaisesRegex(kind, text):
                soma.plan(total, given, **options)
