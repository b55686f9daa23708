"""nki.collectives in the programs of kernels: what is recorded, what waits for what, what is
refused."""
import re
import unittest
import warnings

import numpy as np

import neuronxcc.nki.nccl as nccl
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import soma
from helper import KernelCase
from nki.collectives import ReplicaGroup
from soma.errors import KernelError

X = np.ones((128, 64), np.float32)
FOUR = ReplicaGroup([[0, 1, 2, 3]])


def hbm(x, rows=1, name=""):
    return nl.ndarray((x.shape[0] * rows,) + x.shape[1:], x.dtype, buffer=nl.shared_hbm, name=name)


def copied(x):
    src = hbm(x, name="src")
    nisa.dma_copy(dst=src, src=x)
    return src


def lines(kernel, *args, **options):
    """The instructions of a kernel's program by engine, without places and types."""
    found, engine = {}, None
    for line in kernel.source(*args, **options).split("\n"):
        if line.startswith("section "):
            engine = line[8:]
        elif engine and line.startswith("        ") and "halt" not in line:
            found.setdefault(engine, []).append(line.strip())
    return found


class Recorded(KernelCase):
    def kernel(self, body):
        """A kernel that calls body(src, dst) with two tensors in HBM and stores dst."""
        @nki.jit
        def kernel(x):
            src, dst = copied(x), hbm(x)
            body(src, dst)
            return dst
        return kernel

    def only(self, kernel, op):
        found = [line for line in lines(kernel, X).get("gpsimd", ()) if line.startswith(op + " ")]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_each_operation_has_its_instruction(self):
        four = nl.shared_hbm
        made = {
            "all_reduce": (lambda s, d: ncc.all_reduce([s], [d], FOUR, nl.maximum), "op=max"),
            "all_gather": (lambda s, d: ncc.all_gather(
                srcs=[s], dsts=[hbm(s, 4)], replica_group=FOUR, collective_dim=0), "group=ranks"),
            "reduce_scatter": (lambda s, d: ncc.reduce_scatter(
                [s], [nl.ndarray((32, 64), s.dtype, buffer=four)], FOUR, 0, nl.add), "op=add"),
            "all_to_all": (lambda s, d: ncc.all_to_all([s], [d], FOUR, 0), "group=ranks"),
            "collective_permute": (lambda s, d: ncc.collective_permute(
                [s], [d], [(0, 1), (1, 0)]), r"pairs=\[\[0,1\],\[1,0\]\]"),
            "collective_permute_implicit": (lambda s, d: ncc.collective_permute_implicit(
                [[s[0:64]], [s[64:128]]], [[d[0:64]], [d[64:128]]], FOUR, [0, 1]),
                r"channels=\[0,1\]"),
            "collective_permute_implicit_reduce": (
                lambda s, d: ncc.collective_permute_implicit_reduce(
                    [[s]], [[s]], [[d]], FOUR, nl.add), "srcs1=.*op=add"),
        }
        for op, (body, want) in made.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertRegex(self.only(self.kernel(body), op), want)

    def test_of_varying_sizes(self):
        @nki.jit
        def kernel(x, counts):
            metadata = hbm(counts)
            nisa.dma_copy(dst=metadata, src=counts)
            src, dst = copied(x), hbm(x, 4)
            if nl.num_programs() == 2:
                ncc.all_gather_v([src], [dst], FOUR, metadata)
            else:
                ncc.all_to_all_v([src], [dst], FOUR, metadata, recv_counts_known=True)
            return dst
        counts = np.zeros((3, 4), np.uint32)
        self.assertRegex(kernel.source(X, counts), "all_to_all_v .*recv_counts_known=true")
        self.assertRegex(kernel[2].source(X, counts), "all_gather_v .*group=ranks, metadata=")

    def test_who_uses_the_result_waits_and_others_do_not(self):
        @nki.jit
        def kernel(x, y):
            src, dst, out = copied(x), hbm(x), hbm(y)
            ncc.all_reduce([src], [dst], FOUR, nl.add)
            t = nl.ndarray(y.shape, y.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=y)
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out, src=t)
            nisa.dma_copy(dst=t, src=dst)
            nisa.dma_copy(dst=out, src=t)
            return dst, out
        found = lines(kernel, X, X)
        self.assertRegex(found["gpsimd"][0],
                         r"^all_reduce .*\$moved\d+>=16 \$gpsimd_collected\+\+$")
        waits = [line for e in found for line in found[e] if "$gpsimd_collected>=1" in line]
        self.assertEqual(len(waits), 1, waits)
        self.assertRegex(waits[0], r"^dma_copy float32@sbuf\S* float32@hbm\[")

    def test_a_source_is_not_overwritten_before_its_end(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            s = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            out = hbm(x)
            nisa.dma_copy(dst=t, src=x)
            ncc.all_reduce([t], [s], FOUR, nl.add)
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
            nisa.tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)
            nisa.dma_copy(dst=out, src=s)
            return out
        found = lines(kernel, X)
        self.assertRegex(found["vector"][0], r"tensor_scalar .*\$gpsimd_collected>=1")

    def test_in_a_loop_at_run_time(self):
        @nki.jit
        def kernel(x):
            a, b = copied(x), hbm(x)
            for _ in nl.dynamic_range(3):
                ncc.collective_permute_implicit([[a]], [[b]], FOUR)
                ncc.collective_permute_implicit([[b]], [[a]], FOUR)
            return a
        found = [line for line in lines(kernel, X)["gpsimd"] if line.startswith("coll")]
        self.assertRegex(found[0], r"\$gpsimd_collected>=r\d+ \$gpsimd_collected\+\+")
        self.assertRegex(found[1], r"\$gpsimd_collected>=r\d+ \$gpsimd_collected\+\+")

    def test_numbers_of_ranks_are_registers_of_those_who_use_them(self):
        @nki.jit
        def kernel(x, table):
            out = hbm(x, name="out")
            t = nl.ndarray((1, 64), x.dtype, buffer=nl.sbuf)
            r = ncc.rank_id()
            nisa.dma_copy(dst=t, src=x.ap(pattern=[[64, 1], [1, 64]], scalar_offset=r,
                                          indirect_dim=0))
            for i in range(2):
                q = ncc.collective_permute_implicit_current_processing_rank_id(i, FOUR)
                nisa.dma_copy(dst=out.ap(pattern=[[64, 1], [1, 64]], scalar_offset=q,
                                         indirect_dim=0), src=t)
            return out
        text = "\n".join(sum(lines(kernel, X, X).values(), []))
        self.assertRegex(text, r"rank_id r\d+\n(.*\n)*.*x,0\+r\d+\*64")
        self.assertRegex(text, r"current_processing_rank_id r\d+, 0, group=ranks")
        self.assertRegex(text, r"current_processing_rank_id r\d+, 1, group=ranks")

    def test_equal_groups_are_one(self):
        def body(src, dst):
            for _ in range(300):
                ncc.all_reduce([src], [dst], ReplicaGroup([[0, 1], [2, 3]]), nl.add)
        source = self.kernel(body).source(X)
        self.assertEqual(re.findall(r"\w+ group .*", source), ["ranks group [[0,1],[2,3]]"])

    def test_two_cores_share_groups(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((64, 64), x.dtype, buffer=nl.sbuf)
            s = nl.ndarray((64, 64), x.dtype, buffer=nl.sbuf)
            out, half = hbm(x), nl.ds(64 * nl.program_id(0), 64)
            nisa.dma_copy(dst=t, src=x[half])
            ncc.all_reduce([t], [s], ReplicaGroup([[0, 1]]), nl.add)
            if nl.program_id(0):
                ncc.all_reduce([s], [t], ReplicaGroup([[1, 0]]), nl.add)
            nisa.dma_copy(dst=out[half], src=s)
            return out
        source = kernel[2].source(X)
        self.assertEqual(re.findall(r"\w+ group .*", source),
                         ["ranks group [[0,1]]", "ranks_2 group [[1,0]]"])
        self.assertEqual(len(re.findall(" all_reduce ", source)), 3)

    def test_two_cores_have_one_operation_on_what_both_see(self):
        @nki.jit
        def kernel(x):
            core, mine = nl.program_id(0), ReplicaGroup([[0, 1, 2, 3]])
            src, dst, out = copied(x), hbm(x), hbm(x)
            t = nl.ndarray((64, 64), x.dtype, buffer=nl.sbuf)
            own = nl.ndarray((64, 64), x.dtype, buffer=nl.private_hbm)
            ncc.all_reduce([src], [dst], mine, nl.add)                      # one
            if core == 0:
                ncc.all_reduce([dst[0:64]], [out[0:64]], mine, nl.add)      # of core 0
            ncc.all_to_all([dst], [src], mine, 0)                           # one
            ncc.all_to_all([dst], [src], ReplicaGroup([[core, 1 - core, 2, 3]]), 0)  # two
            ncc.collective_permute([src], [out], [(0, 1), (1, 2 * core)])   # two
            nisa.dma_copy(dst=t, src=src[nl.ds(64 * core, 64)])
            nisa.dma_copy(dst=own, src=t)
            ncc.all_reduce([own], [own], mine, nl.maximum)                  # one of each core
            ncc.all_reduce([t], [t], mine, nl.minimum)
            nisa.dma_copy(dst=out[nl.ds(64 * core, 64)], src=t)
            return out
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = kernel[2].source(X)
        found = re.findall(r"(all_\w+|collective_\w+) .*?(both=true)?(?= \$|\n)", source)
        self.assertEqual(sorted(op for op, both in found if both),
                         ["all_reduce"] * 2 + ["all_to_all"] * 2)
        self.assertEqual(len(found), 13)

    def test_programs_are_what_the_assembler_takes(self):
        def body(src, dst):
            ncc.all_reduce([src], [dst], FOUR, nl.add)
            ncc.collective_permute([dst], [src], [(0, 1)])
        source = self.kernel(body).source(X)
        self.assertEqual(soma.Machine("trn2").assemble(source).source(), source)

    def test_what_follows_one_holds_no_other_work(self):
        """A transfer that waits for other ranks is on the engine of collectives; stores of what is
        computed are not."""
        @nki.jit
        def kernel(x, w):
            src, dst, out, other = copied(x), hbm(x), hbm(x), hbm(w)
            ncc.all_reduce([src], [dst], FOUR, nl.add)
            nisa.dma_copy(dst=out, src=dst)
            t = nl.ndarray(w.shape, w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=w)
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=other, src=t)
            return out, other
        found = lines(kernel, X, X)
        late = [e for e in found for line in found[e] if "$gpsimd_collected>=1" in line]
        self.assertEqual(late, ["gpsimd"])
        self.assertEqual(len([line for line in found["gpsimd"] if "dma_copy" in line]), 1)

    def test_some_semaphores_are_left(self):
        @nki.jit
        def kernel(x):
            out, group = hbm(x, 8), FOUR
            for i in range(400):
                t = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=t, src=x)
                nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=float(i))
                nisa.dma_copy(dst=out[nl.ds(128 * (i % 8), 128)], src=t)
            if few:
                ncc.all_reduce([out], [out], group, nl.add)
            return out
        for few in (False, True):
            used = [int(n) for n in re.findall(r" sem (\d+)", kernel.source(X))]
            self.assertEqual(max(used) < 160, few)
            self.assertGreater(max(used), 100)

    def test_older_names(self):
        def body(src, dst):
            nccl.all_reduce(op=np.add, src=src, dst=dst, replica_groups=[[0, 1, 2, 3]])
        self.assertRegex(self.only(self.kernel(body), "all_reduce"), "op=add")

        def ring(src, dst):
            for channel in range(2):
                half = nl.ds(64 * channel, 64)
                nccl.collective_permute_implicit(
                    dst=dst[half], src=src[half], replica_groups=[[0, 1]], channel_id=channel,
                    num_channels=2, mask=True)
        found = lines(self.kernel(ring), X)["gpsimd"]
        self.assertEqual(len([x for x in found if x.startswith("collective_permute_imp")]), 2)
        from neuronxcc.nki.nccl.collectives import all_reduce
        self.assertIs(all_reduce, ncc.all_reduce)

        def gather(src, dst):
            nccl.all_gather(op=np.add, srcs=[src[0:32]], dsts=[dst], replica_groups=[[0, 1, 2, 3]],
                            all_gather_dim=0, dtype=src.dtype)
        self.assertRegex(self.only(self.kernel(gather), "all_gather"), "group=ranks")
        from neuronxcc.nki._private.private_api import cc_div
        from neuronxcc.nki.isa.neuron_isa import _tiled_offloaded_memcpy

        @nki.jit
        def turn(x):
            out = hbm(x)
            _tiled_offloaded_memcpy(src=x, dst=out)
            r = cc_div(5, 2, [[0, 1]])
            nisa.dma_copy(dst=out.ap(pattern=[[64, 1], [1, 64]], scalar_offset=r, indirect_dim=0),
                          src=x[0:1])
            return out
        self.assertRegex(turn.source(X),
                         r"current_processing_rank_id r\d+, 2, group=ranks, channel=1")

    def test_what_the_vendors_compiler_does_not_take_is_said(self):
        @nki.jit
        def kernel(x):
            dst = hbm(x)
            ncc.all_reduce([x], [dst], FOUR, nl.add)
            return dst
        with self.assertWarnsRegex(UserWarning, "argument of the kernel: neuronx-cc refuses"):
            kernel.source(X)

        def strided(src, dst):
            ncc.all_reduce([src[:, 0:32]], [dst[:, 0:32]], FOUR, nl.add)
        with self.assertWarnsRegex(UserWarning, "not one after another: neuronx-cc refuses"):
            self.kernel(strided).source(X)


class Refused(KernelCase):
    def test_what_does_not_fit(self):
        t = "nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)"
        for text, want in (
            ("ncc.all_reduce([a], [b], FOUR, nl.multiply)",
             "all_reduce op: op=mult: all_reduce has add, min and max"),
            ("ncc.all_reduce([a], [b], FOUR)", "op is missing"),
            ("ncc.all_reduce([a], [b], [0, 1], nl.add)",
             r"all_reduce: replica_group=\[0, 1\]: it needs lists of ranks"),
            ("ncc.all_reduce([a], [b], ReplicaGroup([[0, 1], [1, 2]]), nl.add)",
             "a group: rank 1 appears twice"),
            ("ncc.all_reduce([a], [b, a], FOUR, nl.add)", "all_reduce srcs: 1 of srcs, but 2 of"),
            ("ncc.all_reduce([], [], FOUR, nl.add)", "all_reduce: srcs is empty"),
            ("ncc.all_reduce([a], [3], FOUR, nl.add)", r"all_reduce: dsts\[0\] is int, not a"),
            ("ncc.all_reduce([%s], [b], FOUR, nl.add)" % t, "all must be in hbm, or all in sbuf"),
            ("ncc.all_gather([a], [b], FOUR, 0)",
             "all_gather srcs: operand 0: 8192 elements, but its dst has 8192; it needs 32768"),
            ("ncc.all_gather([a], [b], ReplicaGroup([[0]]), 1)", "dim=1: all_gather takes 0 here"),
            ("ncc.all_gather([a], [b], ReplicaGroup([[0]]), 2)", "collective_dim=2: it is 0, or 1"),
            ("ncc.all_to_all([a], [b], ReplicaGroup([[0]]))", "collective_dim is missing: give 0"),
            ("ncc.all_to_all([%s], [%s], FOUR, 0)" % (t, t), "operands in sbuf|may not be in sbuf"),
            ("ncc.collective_permute([a], [b], [(0, 1), (0, 2)])", "rank 0 sends twice"),
            ("ncc.collective_permute([a], [b], [0, 1])", "it needs pairs of ranks"),
            ("ncc.collective_permute_implicit([a], [b], FOUR, [1])", "channels are 0, 1 and so on"),
            ("ncc.collective_permute_implicit([[a, a]], [[b]], FOUR)", "a channel has one"),
            ("ncc.all_gather_v([a], [b], FOUR, a)", "it needs the two cores of LNC=2"),
            ("ncc.all_to_all_v([a], [b], FOUR, a, has_rdispls=True)", "has_rdispls=True: it needs"),
            ("ncc.all_to_all_v([a], [b], FOUR, a)", "float32: metadata must be uint32"),
        ):
            names = dict(globals())
            exec("def call(a, b):\n    %s" % text, names)

            @nki.jit
            def kernel(x):
                a, b = copied(x), hbm(x)
                names["call"](a, b)
                return b
            with self.assertRaisesRegex(KernelError, want, msg=text):
                kernel.source(X)

    def test_receivers_choose_places(self):
        """all_to_all_v with has_rdispls: row 3 says where a rank wants what each other sends."""
        @nki.jit(platform_target="trn3")
        def kernel(x, m):
            src, dst, y = (nl.ndarray((64,), nl.float32, buffer=nl.shared_hbm) for _ in range(3))
            meta, told = (nl.ndarray((4, 4), nl.uint32, buffer=nl.shared_hbm) for _ in range(2))
            zero = nl.ndarray((1, 64), nl.float32, buffer=nl.sbuf)
            nisa.memset(dst=zero, value=0.0)
            nisa.dma_copy(dst=dst.reshape((1, 64)), src=zero)
            nisa.dma_copy(dst=src, src=x)
            nisa.dma_copy(dst=meta, src=m)
            ncc.all_to_all_v([src], [dst], FOUR, meta, has_rdispls=True)
            nisa.dma_copy(dst=y, src=dst)
            nisa.dma_copy(dst=told, src=meta)
            return y, told

        r, p = np.indices((4, 4))
        counts, first, places = (r + p) % 5, p * 4 + r, (p * 3 + r) % 4 * 16 + p
        x = np.arange(64, dtype=np.float32) + 100 * np.arange(4, dtype=np.float32)[:, None]
        m = np.stack([counts, first, 0 * r, places], axis=1).astype(np.uint32)
        for lnc in (1, 2):
            world = soma.world(ranks=4, lnc=lnc, checks="race")
            run = world.run(kernel[2] if lnc == 2 else kernel, lambda k: dict(x=x[k], m=m[k]))
            for k, (y, told) in enumerate(run.results):
                want = np.zeros(64, np.float32)
                for s in range(4):
                    part = x[s][first[s, k]:first[s, k] + counts[s, k]]
                    want[places[k, s]:places[k, s] + len(part)] = part
                np.testing.assert_array_equal(y, want)
                np.testing.assert_array_equal(told[2], counts[:, k])

    def test_outside_of_a_kernel(self):
        with self.assertRaisesRegex(KernelError, "outside of a kernel"):
            ncc.rank_id()


if __name__ == "__main__":
    unittest.main()
