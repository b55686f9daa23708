"""kernel.check(): readings of what nothing wrote, several schedules, what is refused."""
import contextlib
import io
import unittest
import warnings
from unittest import mock

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import neuronxcc.nki as old
import soma
from helper import KernelCase, data


def tile(shape=(64, 8), buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=nl.float32, buffer=buffer)


def line(kernel, n):
    """The number of line n of a kernel: its decorator is line 0."""
    return kernel.function.__code__.co_firstlineno + n


@nki.jit
def forgets(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    acc, t = tile(), tile()
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_tensor(dst=acc, data1=acc, data2=t, op=nl.add)
    nisa.dma_copy(dst=out, src=acc)
    return out


@nki.jit
def exchange(x, wait):
    """Each core reads what the other one writes."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    z = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.program_id(0)
    t, u = tile((64, 512)), tile((64, 512))
    nisa.dma_copy(dst=t, src=x[nl.ds(p * 64, 64), :])
    for i in range(3 if p == 0 else 0):
        nisa.activation(dst=t, op=nl.tanh, data=t)
    nisa.activation(dst=u, op=nl.copy, data=t)
    nisa.dma_copy(dst=y[nl.ds(p * 64, 64), :], src=t)
    if wait:
        nisa.core_barrier(data=y, cores=(0, 1))
    nisa.dma_copy(dst=u, src=y[nl.ds((1 - p) * 64, 64), :])
    nisa.dma_copy(dst=z[nl.ds(p * 64, 64), :], src=u)
    return z


@nki.jit
def alike(x, differ):
    """Both cores write y, and each reads it."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    z = nl.ndarray((2,) + x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t, u = tile(x.shape), tile(x.shape)
    p = nl.program_id(0)
    nisa.dma_copy(dst=t, src=x)
    if differ and p == 1:
        nisa.memset(dst=t[0:1, 0:1], value=1.5)
    nisa.dma_copy(dst=y, src=t)
    nisa.dma_copy(dst=u, src=y)
    nisa.dma_copy(dst=z[p], src=u)
    return z


@nki.jit
def right(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = tile()
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out, src=t)
    return out


class Unwritten(KernelCase):
    def found(self, kernel, *args, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return kernel.check(*args, **options)

    def test_a_reading_of_sbuf_is_a_finding_with_its_line(self):
        for schedules in (1, 4, "all"):
            found = self.found(forgets, data(64, 8), schedules=schedules)
            self.assertEqual([(f.check, f.line) for f in found], [("uninit", line(forgets, 5))])
            self.assertRegex(found[0].text, r"test_check.py:%d: uninit: tensor_tensor data1: reads "
                             r"byte 0 of partition 0 of tile t \(" % line(forgets, 5))
        self.assertEqual(self.found(forgets, data(64, 8), checks="race"), [])

    def test_the_values_of_a_call_stay(self):
        x = data(64, 8)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.same(nki.jit(forgets.function)(x), x, 0, 0)
        self.assertEqual(len(seen), 1)

    def test_half_a_tile(self):
        @nki.jit
        def half(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t = tile()
            nisa.dma_copy(dst=t[:, 0:4], src=x[:, 0:4])
            nisa.dma_copy(dst=out, src=t)
            return out
        found = self.found(half, data(64, 8))
        self.assertEqual([(f.check, f.line) for f in found], [("uninit", line(half, 5))])
        self.assertIn("(element [0, 4])", found[0].text)

    def test_a_reading_of_psum_and_of_a_private_tensor(self):
        @nki.jit
        def psum(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t, p = tile(), tile(buffer=nl.psum)
            nisa.tensor_copy(dst=t, src=p)
            nisa.dma_copy(dst=out, src=t)
            return out

        @nki.jit
        def private(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            s = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
            t = tile()
            nisa.dma_copy(dst=t, src=s)
            nisa.dma_copy(dst=out, src=t)
            return out
        for kernel, at in ((psum, 4), (private, 5)):
            found = self.found(kernel, data(64, 8))
            self.assertEqual([(f.check, f.line) for f in found], [("uninit", line(kernel, at))])

    def test_a_matmul_by_what_is_partly_unwritten(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray((8, 8), dtype=x.dtype, buffer=nl.shared_hbm)
            a, t, p = tile(), tile((8, 8)), tile((8, 8), nl.psum)
            nisa.dma_copy(dst=a[:, 0:4], src=x[:, 0:4])
            nisa.nc_matmul(dst=p, stationary=a, moving=a)
            nisa.tensor_copy(dst=t, src=p)
            nisa.dma_copy(dst=out[0:4, 0:4], src=t[0:4, 0:4])
            nisa.dma_copy(dst=out[4:8, 0:4], src=t[0:4, 0:4])
            nisa.dma_copy(dst=out[:, 4:8], src=t[:, 0:4])
            return out
        found = self.found(kernel, data(64, 8))  # a product of columns that nobody wrote is stored
        self.assertEqual([(f.check, f.line) for f in found], [("uninit", line(kernel, 5))])
        self.assertRegex(found[0].text, r"test_check.py:\d+: uninit: nc_matmul stationary: .* "
                                        r"other bytes of it are written at [^ ]*test_check.py:"
                                        r"\d+\n  needed at ")

    def test_a_tile_that_is_returned_is_refused_with_its_line(self):
        def kernel(x, buffer):
            t = tile((64, 8), buffer)
            nisa.memset(dst=t, value=0.0)
            return {"t": [t]}
        first = kernel.__code__.co_firstlineno
        for buffer, name in ((nl.sbuf, "SBUF"), (nl.psum, "PSUM")):
            for call in ("__call__", "run", "check"):
                with self.assertRaisesRegex(soma.KernelError, r"test_check.py:%d: the kernel "
                                            r"returns t, which is a tile in %s: store it"
                                            % (first + 1, name)):
                    getattr(nki.jit(kernel), call)(data(64, 8), buffer)


class Masks(KernelCase):
    """100 of 128 rows, or 50 of 64 columns, are loaded."""

    def found(self, function):
        @old.jit
        def kernel(x):
            out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
            i, j = nl.mgrid[0:128, 0:64]
            function(x, out, i, j)
            return out
        first = function.__code__.co_firstlineno
        found = kernel.check(data(128, 64), checks="uninit,race,psum,range")
        return [(f.check, f.line - first) for f in found], "\n".join(map(str, found))

    def test_rows_of_their_own_that_are_not_stored(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=i < 100)
            u = nl.exp(t) / nl.sum(nl.exp(t), axis=1, keepdims=True)
            v = nl.multiply(u, nl.reciprocal(t))  # 1 / 0 in rows that nobody wants
            nl.store(out[i, j], v, mask=i < 100)
        self.assertEqual(self.found(function), ([], ""))

    def test_columns_that_are_not_stored(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=j < 50)
            u = nl.reciprocal(t)
            nl.store(out[i, j], nl.add(t, u), mask=j < 50)
        self.assertEqual(self.found(function), ([], ""))

    def test_rows_that_reach_an_output(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=i < 100)
            u = nl.exp(t)
            nl.store(out[i, j], u)
        found, text = self.found(function)
        self.assertEqual(found, [("uninit", 3)])
        self.assertRegex(text, r"a transfer stores elements that nothing has written\n.*\n    "
                               r"reads .*; one is element \[100, 0\] of tile u\n  it was left "
                               r"out at .*test_check.py:\d+: zero here, anything on the machine")

    def test_columns_mixed_by_a_reduction(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=j < 50)
            s = nl.sum(t, axis=1, keepdims=True)
            nl.store(out[i, j], nl.copy(nl.broadcast_to(s, shape=(128, 64))))
        found, text = self.found(function)
        self.assertEqual(found, [("uninit", 2)])
        self.assertRegex(text, r"a result is made of elements that are written and of others that "
                               r"nothing has written\n.*\n.*one is element \[0, 50\] of tile t")

    def test_a_masked_reduction_and_a_select_leave_them_out(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=j < 50)
            s = nisa.tensor_reduce(nl.add, t[i, j], axis=1, keepdims=True, mask=j < 50)
            u = nisa.affine_select(pred=(j < 50), on_true_tile=t[i, j], on_false_value=0.0)
            nl.store(out[i, j], nl.add(u, s))
        self.assertEqual(self.found(function), ([], ""))

    def test_rows_mixed_by_a_matmul(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=i < 100)
            p = nl.matmul(t[:, 0:64], t, transpose_x=True)
            nl.store(out[0:64, :], p)
            nl.store(out[64:128, :], p)
        found, text = self.found(function)
        self.assertEqual(found, [("uninit", 2)], text)

    def test_columns_of_a_matmul_that_are_not_stored(self):
        def function(x, out, i, j):
            t = nl.load(x[i, j], mask=j < 50)
            p = nl.matmul(t, t, transpose_x=True)
            a, b = nl.mgrid[0:64, 0:64]
            nl.store(out[a, b], p, mask=(a < 50) & (b < 50))
        self.assertEqual(self.found(function)[0], [])

    def test_a_transpose_moves_them(self):
        def moved(stored):
            def function(x, out, i, j):
                t = nl.load(x[i, j], mask=i < 100)
                u = nl.copy(nl.transpose(t))
                nl.store(out[0:64, 0:64], u[:, 0:64])
                nl.store(out[64:128, 0:stored - 64], u[:, 64:stored])
            return self.found(function)[0]
        self.assertEqual(moved(100), [])
        self.assertEqual(moved(101), [("uninit", 4)])

    def test_an_index_that_a_mask_leaves_out(self):
        def function(x, out, i, j):
            rows = nl.ndarray((128, 1), dtype=nl.int32, buffer=nl.sbuf)
            a, b = nl.mgrid[0:128, 0:1]
            rows[...] = nl.copy(nl.load(x[a, b], mask=a < 100), dtype=nl.int32)
            t = nl.load(x[rows, nl.arange(64)[None, :]])
            nl.store(out[i, j], t)
        found, text = self.found(function)
        self.assertEqual(found[:1], [("uninit", 4)], text)

    def test_a_tile_of_which_a_part_is_written_and_stored(self):
        def function(x, out, i, j):
            t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
            t[0:100] = nl.load(x[0:100])
            u = nl.reciprocal(t)
            nl.store(out[0:100], u[0:100])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(self.found(function), ([], ""))


class Unread(KernelCase):
    """A tile that is loaded and never used is a warning of check(), not a finding."""

    def warned(self, body):
        @nki.jit
        def kernel(x, y):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            b = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a, src=x)
            body(y, a, b)
            nisa.dma_copy(dst=out, src=a)
            return out
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertEqual(list(kernel.check(data(128, 64), data(128, 64))), [])
        return [(str(w.message), w.lineno) for w in told]

    def test_a_load(self):
        line = self.test_a_load.__code__.co_firstlineno

        def body(y, a, b):
            for _ in range(2):
                nisa.dma_copy(dst=b, src=y)
            nisa.tensor_tensor(dst=a, data1=a, data2=a, op=nl.add)
        (text, at), = self.warned(body)
        self.assertEqual((text, at), ("tile b is loaded, and nothing reads it", line + 5))

    def test_what_is_read_or_calculated(self):
        def junk(y, a, b):  # what an instruction gives beside what is wanted
            s = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(dst=b, op=nl.copy, data=a, reduce_op=nl.add, reduce_res=s)
            nisa.tensor_scalar(dst=a, data=a, op0=nl.multiply, operand0=s)

        def in_part(y, a, b):
            nisa.dma_copy(dst=b, src=y)
            nisa.tensor_tensor(dst=a[:, 0:8], data1=a[:, 0:8], data2=b[:, 8:16], op=nl.add)
        for body in (junk, in_part):
            self.assertEqual(self.warned(body), [])


class Schedules(KernelCase):
    def test_findings_are_merged_and_other_bits_are_one(self):
        x = data(128, 512)
        one, many = exchange[2].check(x, False), exchange[2].check(x, False, schedules=8)
        self.assertEqual([f.check for f in one], ["race"] * 2)  # one of each core
        self.assertEqual([f.check for f in many], ["race"] * 2 + ["schedule"], many)
        self.assertRegex(many[2].text, r"schedule: schedule \d gives other bits than schedule 0 in "
                                       r"tensor z: element \[\d+, \d+\] is [-0-9.e]+, not "
                                       r"[-0-9.e]+; \d+ of 65536 differ\n  again: schedule=\d")
        n = int(many[2].text[-1])
        again = exchange[2].check(x, False, schedule=n)
        self.assertEqual({(f.check, f.line) for f in again}, {(f.check, f.line) for f in one})
        self.assertEqual(exchange[2].check(x, True, schedules=8), [])

    def test_threads_change_nothing(self):
        x, found = data(128, 512), []
        dev = soma.device("neuron:0")
        for cores in (1, 2, 5):
            with mock.patch("os.sched_getaffinity", lambda _: range(cores)):
                for args in (x, False), (dev.array(x), False), (x, True):
                    found.append([(f.check, f.line, f.text) for f in
                                  exchange[2].check(*args, schedules=6)])
        self.assertEqual([len(f) for f in found], [3, 3, 0] * 3)
        self.assertTrue(all(f in (found[0], []) for f in found))

    def test_a_print_that_fails_in_a_thread(self):
        @nki.jit
        def prints(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t = tile(x.shape)
            nisa.dma_copy(dst=t, src=x)
            nl.device_print("t", t[0:1, 0:1])
            nisa.dma_copy(dst=out, src=t)
            return out
        x = np.ones((64, 8), np.float32)
        said = []
        for schedules in (1, 4):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(prints.check(x, schedules=schedules), [])
            said.append(out.getvalue())
        self.assertIn("t ", said[0])
        self.assertEqual(said[0], said[1])

        class Full:
            def write(self, text):
                raise OSError("no room")
        with self.assertRaisesRegex(OSError, "no room"), contextlib.redirect_stdout(Full()):
            prints.check(x, schedules=4)
        self.assertEqual(prints.check(x, schedules=4, checks=0), [])

    def test_bits_alone(self):
        found = exchange[2].check(data(128, 512), False, checks="range", schedules=8)
        self.assertEqual([f.check for f in found], ["schedule"])

    def test_all_schedules(self):
        x = data(128, 512)
        for option in ({"schedules": "all"}, {"schedule": "all"}):
            found = exchange[2].check(x, False, **option)
            self.assertEqual([f.check for f in found], ["race"] * 2 + ["schedule"], found)
            self.assertIn("depends on timing", found[2].text)
            self.assertEqual(right.check(data(64, 8), **option), [])
        self.assertEqual([f.check for f in exchange[2].check(x, False, checks=0, schedules="all")],
                         ["schedule"])

    def test_a_machine_takes_all_schedules(self):
        program = right.build((data(64, 8),), {})[0].program
        run = soma.Machine("trn2", schedule="all").run(program, {"x": data(64, 8)})
        self.assertEqual(run.schedules.verdict, "same")
        self.assertGreater(run.schedules.states, 0)
        self.assertIn("does not depend on timing", str(run.schedules))
        self.assertIsNone(soma.Machine("trn2").run(program, {"x": data(64, 8)}).schedules)

    def test_numbers_that_are_none(self):
        for option in (0, -1, True, 1.5, "8", None):
            with self.assertRaisesRegex(ValueError, "^schedules=.*: it must be a whole number, 1 "):
                right.check(data(64, 8), schedules=option)
        for option in (-1, "4", 0.5):
            with self.assertRaisesRegex(ValueError, "^schedule=.*: it must be a whole number, 0 "):
                right.check(data(64, 8), schedule=option)
        self.assertEqual(right.check(data(64, 8), schedules=np.int64(2)), [])

    def test_a_schedule_of_the_kernel_itself(self):
        @nki.jit
        def kernel(x, schedule):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=x)
            self.assertEqual(schedule, "mine")
            return out
        self.assertEqual(kernel.check(data(64, 8), schedule="mine"), [])

    def test_a_run_that_fails_keeps_what_was_found(self):
        @nki.jit
        def kernel(x, at):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            t, u = tile((64, 8)), tile((1, 1))
            i = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            nisa.reciprocal(dst=t, data=t)
            nisa.dma_copy(dst=out, src=t)
            nisa.dma_copy(dst=i, src=at)
            r = nisa.register_alloc()
            nisa.register_load(r, i)
            nisa.dma_copy(dst=out[nl.ds(r, 1), :], src=t[0:1, :])
            return out
        x, far = data(64, 8), np.int32([[1000]])
        with self.assertRaises(soma.SomaFault):
            kernel.check(x, far)
        x[3, 4] = 0
        found = kernel.check(x, far)
        self.assertEqual([f.check for f in found], ["range", "schedule"], found)
        self.assertIn("under schedule 0 the kernel fails", found[1].text)


class Twins(KernelCase):
    def test_both_cores_write_the_same(self):
        x = data(64, 8)
        found = alike[2].check(x, False)
        self.assertEqual((list(found), found.twins), ([], 3))
        self.assertEqual(list(alike[2].check(x, False, schedules=3)), [])
        self.assertEqual(list(alike[2].check(x, False, schedules="all")), [])

    def test_with_the_rule_off(self):
        found = alike[2].check(data(64, 8), False, twins=False)
        self.assertEqual({f.check for f in found}, {"race"}, found)
        self.assertEqual(found.twins, 0)

    def test_one_element_differs(self):
        found = alike[2].check(data(64, 8), True)
        self.assertEqual({f.check for f in found}, {"race"}, found)
        found = alike[2].check(data(64, 8), True, schedules="all")
        self.assertEqual({f.check for f in found}, {"race", "schedule"}, found)

    def test_from_hbm_to_hbm(self):
        @nki.jit
        def kernel(x):
            y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=y, src=x)
            nisa.dma_copy(dst=out, src=y)
            return out
        found = kernel[2].check(data(128, 512))
        self.assertEqual((list(found), found.twins), ([], 4))


class Sums(KernelCase):
    def transposes(self, inside, rows):
        @nki.jit
        def kernel(x):
            y = nl.ndarray((20, 128), dtype=nl.float32, buffer=nl.shared_hbm)
            a, ps = tile((128, 128)), None
            nisa.dma_copy(dst=a, src=x)
            for i in range(20):
                if inside or ps is None:
                    ps = tile((128, 128), nl.psum)
                nisa.nc_transpose(dst=ps, data=a)
                if rows:
                    row = tile((1, 128))
                    nisa.tensor_copy(dst=row, src=ps[0:1, :])
                    nisa.dma_copy(dst=y[i:i + 1, :], src=row)
            if not rows:
                row = tile((20, 128))
                nisa.tensor_copy(dst=row, src=ps[0:20, :])
                nisa.dma_copy(dst=y, src=row)
            return y
        return kernel.check(data(128, 128))

    def test_a_bank_that_a_later_tile_gets_is_no_lost_sum(self):
        self.assertEqual(self.transposes(inside=True, rows=True), [])
        self.assertEqual(self.transposes(inside=True, rows=False), [])

    def test_a_sum_of_which_one_row_is_needed(self):
        self.assertEqual(self.transposes(inside=False, rows=True), [])

    def test_a_sum_of_the_same_tile_that_nobody_reads_is_lost(self):
        found = self.transposes(inside=False, rows=False)
        self.assertEqual([f.check for f in found], ["psum"])


if __name__ == "__main__":
    unittest.main()
