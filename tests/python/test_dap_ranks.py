"""soma-nki --dap of scripts with worlds: engines of all ranks are threads of the protocol."""
import unittest

from test_dap import Base

SCRIPT = """import numpy as np
import nki, nki.collectives as ncc, nki.isa as nisa, nki.language as nl
import soma

@nki.jit
def kernel(a, group):
    mine = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm, name="total")
    for i in range(2):
        t = nl.ndarray((64, 32), a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a[i * 64:i * 64 + 64])
        nisa.activation(dst=t, op=nl.square, data=t)
        nisa.dma_copy(dst=mine[i * 64:i * 64 + 64], src=t)
    ncc.all_reduce(srcs=[mine], dsts=[total], replica_group=group, op=nl.add)
    return total

group = ncc.ReplicaGroup([[0, 1]])
x = [np.full((128, 32), 3 + rank, np.float32) for rank in range(2)]
world = soma.world(ranks=2)
run = world.run(kernel, lambda rank: dict(a=x[rank], group=group))
print("sum", run[0].result[0, 0], run[1].result[127, 31])
"""


class Ranks(Base):
    def setUp(self):
        super().setUp()
        self.write(SCRIPT)

    def write(self, text):
        with open(self.path, "w") as f:
            f.write(text)

    def threads(self):
        return {t["name"]: t["id"] for t in self.client.body("threads")["threads"]}

    def ends(self, status=0):
        self.assertEqual(self.client.event("exited")["exitCode"], status, self.client.output)
        self.client.event("terminated")

    def go_on(self, thread, *breakpoints):
        self.client.body("setBreakpoints", source={"path": self.path},
                         breakpoints=list(breakpoints))
        self.client.body("continue", threadId=thread)

    def test_lines(self):
        self.start({"line": 12, "condition": "t_2[0, 0] == 4"})
        thread = self.stopped("breakpoint", 12)
        names = {n: name for name, n in self.threads().items()}
        self.assertRegex(names[thread], "^rank 1 (scalar|vector)$")
        self.assertIn("rank 0 gpsimd", names.values())
        self.assertRegex(self.variables(thread, "Operands")["t_2"], r"^float32\[64, 32\] \[\[4. 4.")
        self.assertEqual(self.variables(thread, "Python")["i"], "1")
        self.assertEqual(self.value("t_2[0, :2] + 1", thread), "float32[2] [5. 5.]")
        other = self.threads()["rank 0" + names[thread][6:]]
        self.assertRegex(self.variables(other, "Tensors")["a"], r"^float32\[128, 32\] \[\[3. 3.")
        self.assertTrue(any(n.startswith("$") for n in self.variables(other, "Semaphores")))
        self.go_on(thread)
        self.ends()
        self.assertEqual(self.client.output, "sum 25.0 25.0\n")

    def test_steps_and_back(self):
        self.start({"line": 12})
        thread = self.stopped("breakpoint", 12)
        before, seen = self.variables(thread, "Operands"), self.variables(thread, "Semaphores")
        self.client.body("next", threadId=thread)
        self.assertEqual(self.stopped("step", 12), thread)
        self.client.body("stepBack", threadId=thread)
        self.assertEqual(self.stopped("step", 12), thread)
        self.assertEqual(self.variables(thread, "Operands"), before)
        self.assertEqual(self.variables(thread, "Semaphores"), seen)
        self.go_on(thread, {"line": 21})
        thread = self.stopped("breakpoint", 21)
        self.assertEqual(self.value("float(run[1].result[0, 0])", thread), "25.0")
        self.assertEqual(self.value("world.run(kernel, lambda rank: dict(a=x[0], group=group))"
                                    "[0].result[0, 0]", thread), "18.0")  # without a stop
        self.go_on(thread)
        self.ends()

    def test_what_another_rank_writes(self):
        self.start({"line": 20})
        thread = self.stopped("breakpoint", 20)
        self.client.body("stepIn", threadId=thread)
        thread = self.client.event("stopped")["threadId"]  # in part()
        self.client.body("stepOut", threadId=thread)
        self.client.event("stopped")
        self.go_on(thread, {"line": 14})
        thread = self.stopped("breakpoint", 14)
        found = self.client.body("dataBreakpointInfo", name="total",
                                 frameId=self.frame(self.threads()["rank 1 gpsimd"]))
        self.client.body("setDataBreakpoints", breakpoints=[{"dataId": found["dataId"]}])
        self.go_on(thread)
        writers = set()
        for _ in range(40):
            got = self.client.event("stopped")
            self.assertEqual(got["reason"], "data breakpoint")
            writers.update(n for n in ("rank 0", "rank 1") if
                           "is written by %s" % n in self.client.output)
            if len(writers) == 2:
                break
            self.client.body("continue", threadId=got["threadId"])
        self.assertEqual(writers, {"rank 0", "rank 1"}, self.client.output)
        self.client.body("setDataBreakpoints", breakpoints=[])
        self.client.body("continue", threadId=got["threadId"])
        self.ends()

    def test_programs_of_their_own(self):
        """Ranks with different programs in assembly: each has its own lines and tensors."""
        self.write("""import numpy as np, soma
m = soma.Machine("trn2")
text = ['''        target  trn2
%s      tensor  float32[128, 16], input
y       tensor  float32[128, 16], output
done    sem
tp      group   [[0, 1]]
section gpsimd
        all_reduce dsts=[y], srcs=[%s], group=tp, op=add $done++
        halt $done>=1
''' % (n, n) for n in "ab"]
ps = [m.assemble(t, "p%d.s" % r) for r, t in enumerate(text)]
run = soma.world(ranks=2).run(ps, [{"a": np.ones((128, 16), "f")}, {"b": np.ones((128, 16), "f")}])
print(run[1].out["y"][0, 0])
""")
        self.start(stopOnEntry=True)
        self.client.event("stopped")
        threads = self.threads()
        for name, has, has_not in (("rank 0 gpsimd", "a", "b"), ("rank 1 gpsimd", "b", "a")):
            found = self.variables(threads[name], "Tensors")
            self.assertEqual((has in found, has_not in found), (True, False))
        self.client.body("continue", threadId=threads["rank 0 gpsimd"])
        self.ends()
        self.assertEqual(self.client.output, "2.0\n")

    def test_a_world_that_cannot_go_on(self):
        self.write(SCRIPT.replace("group=group)", "group=group, late=rank)").replace(
            "(a, group)", "(a, group, late)").replace("    ncc.all", "    if not late: ncc.all"))
        self.start()
        self.ends(1)
        self.assertRegex(self.client.output, "rank 0")

    def test_saved_and_checked(self):
        """A world that goes on from a file stands at lines, the runs of check() do not."""
        self.write(SCRIPT + """given = [dict(a=a, group=group) for a in x]
world.run(kernel, given, save=(2000, "w"))
print(len(world.check(kernel, given)))
print(soma.load_world("w")[1].program.target)
""")
        self.start({"line": 24})
        thread = self.stopped("breakpoint", 24)
        self.go_on(thread, {"line": 11}, {"line": 14}, {"line": 15})
        thread = self.stopped("breakpoint", 14)  # 11 was before the world was saved
        self.assertIn("rank 1 gpsimd", self.threads())
        self.go_on(thread)
        self.ends()
        self.assertTrue(self.client.output.endswith("0\ntrn2\n"), self.client.output)

    def test_pause(self):
        self.write("""import soma
p = soma.Machine("trn2").assemble('''        target  trn2
section sync
        mov     r1, 1
again:  add     r1, r1, 1
        jmp     again
''', "long.s")
soma.world(ranks=2).run(p)
""")
        self.start(stopOnEntry=True)
        thread = self.client.event("stopped")["threadId"]
        reached = 0
        while reached <= 1:
            self.client.body("continue", threadId=thread)
            self.client.body("pause", threadId=thread)
            self.assertEqual(self.client.event("stopped")["reason"], "pause")
            shown = self.variables(self.threads()["rank 1 sync"], "Registers")
            reached = int(shown.get("r1", 0))


if __name__ == "__main__":
    unittest.main()
