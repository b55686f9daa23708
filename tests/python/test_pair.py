"""Kernels on the two cores of a logical core."""
import unittest

import numpy as np

import neuronxcc.nki as old
import neuronxcc.nki.language as nl
import nki
import nki.isa as nisa
from helper import KernelCase, data
from soma.errors import DeadlockError, KernelError


def rows(x):
    """Row i of x on core i % cores: its reciprocal, by way of a tensor that is the core's own."""
    cores, core = nl.num_programs(), nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(core, x.shape[0], cores):
        t = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
        kept = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=t, src=x[i])
        nisa.reciprocal(dst=t, data=t)
        nisa.dma_copy(dst=kept, src=t)
        nisa.dma_copy(dst=out[i], src=kept)
    return out


class Pairs(KernelCase):
    def wrong(self, text, function, *args):
        with self.assertRaisesRegex(KernelError, text):
            function(*args)

    def test_one_core_and_two_give_equal_bits(self):
        x = data(4, 128, 64) + 2
        kernel = nki.jit(rows)
        want = kernel(x)
        self.same(want, 1 / x)
        for launch in (kernel[2], kernel[(2,)], kernel[[2]], kernel[nl.nc(2)], kernel[np.int64(2)]):
            self.assertEqual(len(launch.build((x,), {})[0].builders), 2)
            self.assertEqual(launch(x).tobytes(), want.tobytes())
        for launch in (kernel, kernel[1], kernel[nl.nc(1)], kernel[4]):
            self.assertEqual(len(launch.build((x,), {})[0].builders), 1)
            self.assertEqual(launch(x).tobytes(), want.tobytes())
        self.assertNotEqual(kernel[2], kernel[2, 1])

    def test_two_cores_are_faster(self):
        x = data(8, 128, 512) + 2
        kernel = nki.jit(rows)
        one, two = (k._launch((x,), {}).time_us for k in (kernel, kernel[2]))
        self.assertLess(two, 0.7 * one)

    def test_programs_of_a_grid_go_to_the_cores_that_it_says(self):
        def kernel(cores, programs):
            @nki.jit
            def run(x):
                out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                i, j = nl.program_id(0), nl.program_id(1)
                seen.append((i, j))
                nl.store(out[i, j], nl.load(x[i, j]) * 2.0)
                return out
            seen = []
            x = data(4, 2, 8, 8)
            self.same(run[cores, programs](x), 2 * x)
            return seen
        half = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
        turns = [(0, 0), (0, 1), (2, 0), (2, 1), (1, 0), (1, 1), (3, 0), (3, 1)]
        self.assertEqual(kernel(nl.spmd_dim(nl.nc(2), 2), 2), half)
        self.assertEqual(kernel(nl.nc(2) * 2, 2), half)
        self.assertEqual(kernel(nl.spmd_dim(2, nl.nc(2)), 2), turns)
        self.assertEqual(kernel(2 * nl.nc(2), 2), turns)
        self.assertEqual(kernel(4, nl.nc(2)), [(i, j) for j in range(2) for i in range(4)])

    def test_a_grid_of_no_programs_is_one(self):
        """As in a published kernel: spmd_dim(rows // 256, nl.nc(2)) of 128 rows."""
        @nki.jit
        def kernel(x):
            assert nl.program_id(0) == 0
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x) + 1.0)
            return out
        x = data(128, 8)
        for grid in (0, (0, 1), nl.spmd_dim(0, nl.nc(2)), (nl.spmd_dim(0, nl.nc(2)), 1)):
            self.same(kernel[grid](x), x + 1)
        second = nki.jit(lambda x: nl.store(x, nl.load(x) + float(nl.program_id(1))))
        second[nl.spmd_dim(0, nl.nc(2)), 1](x)
        self.wrong("sizes must be whole numbers, 1 or more", lambda: kernel[0, 4])

    def test_a_grid_of_an_older_kernel_is_of_one_core(self):
        @old.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out[nl.program_id(0)], nl.load(x[nl.program_id(0)]) + 1.0)
            return out
        x = data(2, 8, 8)
        for grid, cores in ((2, 1), (nl.nc(2), 2)):
            self.assertEqual(len(kernel[grid].build((x,), {})[0].builders), cores)
            self.same(kernel[grid](x), x + 1)

    def test_cores_do_different_things_with_different_tensors(self):
        @nki.jit
        def kernel(x, y, z):
            out = nl.ndarray((2, 8, 8), x.dtype, buffer=nl.shared_hbm)
            if nl.program_id(0) == 0:
                nl.store(out[0], nl.load(x))
            else:
                nl.store(out[1], nl.load(y) + nl.load(y))
                nl.store(z, nl.load(y))
            return out
        x, y, z = data(8, 8), data(8, 8), np.zeros((8, 8), np.float32)
        self.same(kernel[2](x, y, z), np.stack([x, 2 * y]))
        self.same(z, y)

    def test_what_core_1_alone_writes_is_returned(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            other = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            if nl.program_id(0) == 1:
                nl.store(other, nl.load(x))
            else:
                nl.store(out, nl.load(x) * 2.0)
            return out, other
        x = data(8, 8)
        first, second = kernel[2](x)
        self.same(first, 2 * x)
        self.same(second, x)

    def test_rows_that_core_1_indexes(self):
        @nki.jit
        def kernel(x, index):
            out = nl.ndarray((2, 4, 16), x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((4, 16), x.dtype, buffer=nl.sbuf)
            if nl.program_id(0) == 0:
                nisa.dma_copy(dst=t, src=x[0:4, 0:16])
            else:
                i = nl.load(index)
                nisa.dma_copy(dst=t, src=x.reshape((16, 16)).ap(
                    [[16, 4], [1, 16]], offset=0, vector_offset=i, indirect_dim=0))
            nl.store(out[nl.program_id(0)], t)
            return out
        x, index = data(8, 32), np.int32([[3], [1], [0], [2]])
        got = kernel[2](x, index)
        self.same(got, np.stack([x[:4, :16], x.reshape(16, 16)[index[:, 0]]]))

    def test_cores_exchange_tiles(self):
        @nki.jit
        def kernel(x, how, pipe):
            core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            mine = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
            other = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=mine, src=x[core])
            for i in range(3):
                nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core,
                              pipe_id=pipe + i % 2, dma_engine=how)
                nisa.tensor_tensor(dst=mine, data1=mine, data2=other, op=nl.add)
            nisa.dma_copy(dst=out[core], src=mine)
            return out
        x = data(2, 128, 64)
        for how in nisa.dma_engine:
            for pipe in (0, 7):
                got = kernel[2](x, how, pipe)
                self.same(got, np.stack([4 * x.sum(0)] * 2), 1e-5, 1e-5)

    def test_a_barrier_between_what_one_core_writes_and_the_other_reads(self):
        @nki.jit
        def kernel(x, engine):
            core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            between = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            for i in range(4):
                nl.store(between[core, i], nl.load((out if i else x)[core, i - bool(i)]) + 1.0)
                nisa.core_barrier(data=between, cores=(0, 1), engine=engine)
                nl.store(out[core, i], nl.load(between[1 - core, i]))
            return out
        x = data(2, 4, 128, 512)
        first = [x[0, 0] + 1, x[1, 0] + 1]
        want = np.stack([[first[(core + i + 1) % 2] + i for i in range(4)] for core in range(2)])
        for engine in (nisa.engine.gpsimd, nisa.engine.sync, nisa.engine.scalar):
            self.same(kernel[2](x, engine), want)

    def test_the_checks_name_the_cores_and_the_lines(self):
        @nki.jit
        def kernel(x, barrier, whole):
            core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            between = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            if core == 0 or whole:
                nl.store(between[core], nl.load(x[core]))  # line + 5
            if barrier:
                nisa.core_barrier(data=between, cores=(0, 1))
            nl.store(out[core], nl.load(between[1 - core]))  # line + 8
            return out
        line = kernel.function.__code__.co_firstlineno
        x = data(2, 128, 64)
        self.clean(kernel[2], x, True, True)
        self.same(kernel[2](x, True, True), x[::-1])
        found = kernel[2].check(x, False, True, checks="race")
        self.assertEqual([f.line for f in found], [line + 8] * 2, found)
        for core, f in enumerate(found):  # each core reads what the other one writes
            self.assertRegex(f.text, "race: a transfer of core %d's queue .* reads what a transfer "
                             "of core %d's queue" % (core, 1 - core))
            self.assertRegex(f.text, r"core %d \w+ .*test_pair.py:%d" % (1 - core, line + 5))
            self.assertRegex(f.text, r"fix: on both cores nisa.core_barrier\(data=between, cores="
                             r"\(0, 1\)\): core %d after \S*test_pair.py:%d, core %d before "
                             r"\S*test_pair.py:%d$" % (1 - core, line + 5, core, line + 8))
            self.assertNotIn("semaphore", f.text)
        found = kernel[2].check(x, True, False, checks="uninit")
        self.assertEqual([f.line for f in found], [line + 8], found)
        self.assertIn("of tensor between; the first that was not written is byte 32768",
                      found[0].text)

    def test_fixes_of_races_have_the_words_of_nki(self):
        @nki.jit
        def kernel(x):
            core = nl.program_id(0)
            out = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x[core]))  # line + 4
            return out
        line = kernel.function.__code__.co_firstlineno
        found = kernel[2].check(data(2, 128, 64), checks="race")
        self.assertRegex(found[0].text, r"fix: \S*test_pair.py:%d runs on both cores: let one of "
                         r"them write these bytes, as `if nl.program_id\(0\) == 0:` does"
                         % (line + 4))

    def test_a_second_round_that_overwrites_what_the_other_core_still_reads(self):
        @nki.jit
        def kernel(x, both):
            core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            between = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            mine = nl.load(x[core])
            for _ in range(3):
                nl.store(between[core], mine)  # line + 6
                nisa.core_barrier(data=between, cores=(0, 1))
                mine = nl.load(between[1 - core]) + 1.0  # line + 8
                if both:
                    nisa.core_barrier(data=between, cores=(0, 1))
            nl.store(out[core], mine)
            return out
        line = kernel.function.__code__.co_firstlineno
        x = data(2, 128, 64)
        found = kernel[2].check(x, False, checks="race")
        self.assertEqual([f.line for f in found], [line + 6] * 2, found)  # of each core
        for f in found:
            self.assertRegex(f.text, r"fix: \S*:%d overwrites too early what \S*:%d reads: on both "
                             r"cores nisa.core_barrier\(data=between, cores=\(0, 1\)\): core \d "
                             r"after \S*:%d, core \d before \S*:%d"
                             % (line + 6, line + 8, line + 8, line + 6))
        self.clean(kernel[2], x, True)  # with what the fix says
        self.same(kernel[2](x, True), x[::-1] + 3.0)

    def test_a_core_that_waits_for_ever_is_reported_with_its_line(self):
        @nki.jit
        def kernel(x, rounds):
            core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            mine, stop = nl.load(x[core]), nisa.register_alloc()
            other = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
            nisa.register_load(stop, nl.load(rounds[core]))
            for _ in nl.dynamic_range(0, stop):
                nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core,
                              pipe_id=0)  # the call begins at line + 7
                nisa.tensor_copy(dst=mine, src=other)
            nl.store(out[core], mine)
            return out
        line = kernel.function.__code__.co_firstlineno
        x = data(2, 128, 64)
        self.same(kernel[2](x, np.int32([[[3]], [[3]]])), x[::-1])
        with self.assertRaisesRegex(DeadlockError, r"(?s)core 1 \w+ at \S*test_pair.py:%d "
                                    r"\(round 3 of the loop at .*\) waits at its sendrecv of "
                                    "pipe 0 for core 0.*nothing that could still run on core 0 "
                                    "reaches it"
                                    % (line + 7)):
            kernel[2](x, np.int32([[[2]], [[3]]]))

    def test_a_barrier_of_one_core_does_nothing(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            nisa.core_barrier(data=out, cores=(0,))
            nisa.core_barrier(data=out, cores=0)
            return out
        x = data(8, 8)
        self.same(kernel(x), x)
        self.assertNotIn("core_barrier", kernel[2].source(x))

    def test_meetings_in_a_loop_at_run_time(self):
        @nki.jit
        def kernel(x):
            core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            mine = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
            other = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=mine, src=x[core])
            for _ in nl.dynamic_range(5):
                nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core,
                              pipe_id=0)
                nisa.tensor_scalar(dst=mine, data=other, op0=nl.add, operand0=1.0)
                nisa.core_barrier(data=out, cores=(0, 1))
                nisa.dma_copy(dst=out[core], src=mine)
            return out
        x = data(2, 128, 64)
        self.same(kernel[2](x), x[::-1] + 5, 1e-5, 1e-5)

    def test_what_is_no_exchange_is_refused(self):
        def kernel(shape=(8, 8), pipe=0, alone=False, **given):
            @nki.jit
            def run(x):
                core, out = nl.program_id(0), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
                t, u = nl.load(x), nl.ndarray(shape, x.dtype, buffer=nl.sbuf)
                ranks = {"send_to_rank": 1 - core, "recv_from_rank": 1 - core}
                if not (alone and core):
                    nisa.sendrecv(src=t, dst=u, pipe_id=pipe, **dict(ranks, **given))
                nl.store(out, t)
                return out
            return run[2]
        x = data(8, 8)
        self.wrong("core 0: sendrecv", kernel(shape=(8, 4)), x)
        self.wrong(r"test_pair.py:\d+: core 0: sendrecv: send_to_rank=0: core 0 exchanges with "
                   "core 1", kernel(send_to_rank=0), x)
        self.wrong("recv_from_rank=2: core 0 exchanges with core 1", kernel(recv_from_rank=2), x)
        self.wrong("core 0: sendrecv of pipe 3: it would wait for ever; it is number 1 of this "
                   "core", kernel(pipe=3, alone=True), x)
        self.wrong("at most 256", kernel(shape=(8, 512), dma_engine=nisa.dma_engine.gpsimd_dma),
                   data(8, 512))

    def test_errors_name_the_core_and_the_line(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((8, 8), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t[0:8, 0:8 - nl.program_id(0)], src=x)  # line of the error
            nl.store(out, t)
            return out
        place = "test_pair.py:%d: core 1: " % (kernel.function.__code__.co_firstlineno + 4)
        self.wrong(place + "dma_copy", kernel[2], data(8, 8))

    def test_a_tensor_that_only_core_1_makes_is_refused(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            if nl.program_id(0) == 1:
                nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out
        self.wrong(r"test_pair.py:\d+: core 1: .*tensor 2 in shared_hbm must have",
                   kernel[2], data(8, 8))

    def test_wrong_numbers_of_cores(self):
        kernel = nki.jit(rows)
        self.wrong("nl.nc.3.: a logical core is one core, or two", nl.nc, 3)
        self.wrong("only one part of it can be two cores", lambda: nl.spmd_dim(nl.nc(2), nl.nc(2)))
        self.wrong("only one part of it can be two cores", lambda: kernel[nl.nc(2), nl.nc(2)])
        self.wrong("two cores as one need gen3; trn1 is gen2",
                   nki.jit(rows, platform_target="trn1")[nl.nc(2)], data(2, 8, 8))


if __name__ == "__main__":
    unittest.main()
