"""Tensors in HBM that stay on an emulated device from one kernel to the next; arrays of types that
NumPy lacks."""
import copy
import unittest

import numpy as np

import nki
import nki.language as nl
import soma

SHAPE = (128, 64)


@nki.jit
def plus(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y))
    return out


@nki.jit
def double(x):
    nl.store(x, nl.load(x) * 2)


@nki.jit
def turned(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 3)
    return out.permute((1, 0))


@nki.jit
def parts(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 3)
    return out[0:64], [out]


class Devices(unittest.TestCase):
    def setUp(self):
        self.device = soma.device("neuron:5")
        self.ones = self.device.array(np.ones(SHAPE, np.float32))

    def tearDown(self):
        self.device.close()

    def traffic(self):
        return self.device.host_to_device, self.device.device_to_host

    def test_kernels_in_a_chain_copy_nothing(self):
        twos = self.device.full(SHAPE, 2)
        before = self.traffic()
        out = plus(plus(self.ones, twos), twos)
        self.assertIsInstance(out, soma.DeviceArray)
        self.assertEqual(self.traffic(), before)
        np.testing.assert_array_equal(out.numpy(), np.full(SHAPE, 5, np.float32))
        self.assertEqual(self.traffic(), (before[0], before[1] + out.nbytes))

    def test_one_array_on_the_host_brings_all_results_there(self):
        out = plus(self.ones, np.ones(SHAPE, np.float32))
        self.assertIs(type(out), np.ndarray)
        np.testing.assert_array_equal(out, 2)

    def test_arguments_are_written_in_place(self):
        double(self.ones)
        np.testing.assert_array_equal(np.asarray(self.ones), 2)
        double.run(self.ones)  # recorded, on a machine of its own
        np.testing.assert_array_equal(self.ones.numpy(), 4)

    def test_returned_parts_share_the_memory(self):
        half, (whole,) = parts(self.ones)
        self.assertEqual((half.shape, whole.shape), ((64, 64), SHAPE))
        half.fill(7)
        got = whole.numpy()
        self.assertTrue((got[:64] == 7).all() and (got[64:] == 3).all())

    def test_a_returned_part_that_does_not_lie_dense_is_a_copy(self):
        x = np.arange(128 * 64, dtype=np.float32).reshape(SHAPE)
        before = self.device.device_to_host
        got = turned(self.device.array(x))
        self.assertEqual(self.device.device_to_host, before)
        np.testing.assert_array_equal(got.numpy(), x.T * 3)

    def test_a_recorded_run_leaves_its_result_on_the_device(self):
        run = plus.run(self.ones, self.ones)
        self.assertIsInstance(run.result, soma.DeviceArray)
        self.assertIn("engines: # busy", run.timeline())
        self.assertEqual(plus.check(self.ones, self.ones), [])
        self.assertEqual(plus.time(self.ones, self.ones), run.time_us)

    def test_views(self):
        t = self.device.array(np.arange(24, dtype=np.int32).reshape(4, 6))
        np.testing.assert_array_equal(t[1:3].numpy(), np.arange(6, 18).reshape(2, 6))
        np.testing.assert_array_equal(t[-1].numpy(), np.arange(18, 24))
        self.assertEqual(t.reshape(2, -1).shape, (2, 12))
        self.assertEqual(t.view("uint8").shape, (4, 24))
        t[0].fill(9)
        self.assertEqual(t.numpy()[0].tolist(), [9] * 6)
        for index in (slice(None, None, 2), slice(2, 2), 4, -5, "x", (1, 2)):
            with self.assertRaisesRegex(IndexError, r"int32\[4, 6\] on neuron:5>: a view takes"):
                t[index]
        with self.assertRaisesRegex(ValueError, "24 elements: it cannot be reshaped to"):
            t.reshape(5, 5)

    def test_memory_is_counted_and_given_back(self):
        used = self.device.hbm["used"]
        t = self.device.zeros((1 << 20, 1 << 10))  # 4 GiB, nothing of the host
        self.assertEqual(self.device.hbm["used"] - used, 1 << 32)
        del t
        self.assertEqual(self.device.hbm["used"], used)
        with self.assertRaisesRegex(soma.SomaError, "HBM"):
            self.device.zeros((1 << 40,))

    def test_types(self):
        t = self.device.array(np.arange(16), "bfloat16")
        self.assertEqual(str(t), "<bfloat16[16] on neuron:5>")
        self.assertEqual(t.numpy().tolist(), list(range(16)))
        with self.assertRaisesRegex(TypeError, "float64"):
            self.device.array(np.ones(3))

    def test_what_is_refused(self):
        other = soma.device("neuron:6")
        with self.assertRaisesRegex(soma.SomaError, "on neuron:5 and neuron:6: a kernel works on"):
            plus(self.ones, other.array(np.ones(SHAPE, np.float32)))
        other.close()
        with self.assertRaisesRegex(soma.SomaError, "neuron:6 has been closed"):
            other.zeros(3)
        for name in ("neuron:64", "cuda:0", "neuron:-1"):
            with self.assertRaisesRegex(soma.SomaError, "there is no device '%s'" % name):
                soma.device(name)
        with self.assertRaisesRegex(soma.SomaError, "with other options: close"):
            soma.device("neuron:5", max_hbm_bytes=4096)
        for shape in (0, (3, -1), (1.5,)):
            with self.assertRaises(ValueError):
                self.device.zeros(shape)
        with self.assertRaisesRegex(TypeError, "cannot be copied"):
            copy.copy(self.ones)
        trn1 = soma.device("neuron:7", "trn1")
        with self.assertRaisesRegex(soma.KernelError, "is built for trn2, and its arguments are"):
            double(trn1.zeros(SHAPE))
        trn1.close()

    def test_names(self):
        self.assertIs(soma.device(5), self.device)
        self.assertIs(soma.device("privateuseone:5"), self.device)
        self.assertIs(self.ones.to("neuron:5"), self.ones)
        self.assertIs(type(self.ones.to("cpu")), np.ndarray)

    def test_a_program_of_somas_own(self):
        program = self.device.machine.assemble(
            "target trn2\nx tensor float32[128, 64], input\ny tensor float32[128, 64], output\n"
            "t tile sbuf float32[128, 64]\nl sem\nq queue dge=hwdge\nsection sync\n"
            " dma_copy t, x, queue=q $l\n nop $l>=16\n dma_copy y, t, queue=q $l\n"
            " nop $l>=32\n halt\n")
        out = self.device.machine.run(program, {"x": self.ones}).out["y"]
        self.assertIsInstance(out, soma.DeviceArray)
        np.testing.assert_array_equal(out.numpy(), 1)


class Raw(unittest.TestCase):
    """Arrays of types that NumPy lacks print, format and convert as numbers."""

    def test_numbers(self):
        x = soma.array([[1.5, -2], [0, 4]], "bfloat16")
        if not isinstance(x, soma.RawArray):
            self.skipTest("ml_dtypes has bfloat16")
        self.assertEqual(str(x[0]), "[ 1.5 -2. ]")
        self.assertEqual("%s %r" % (x[0, 1], float(x[1, 1])), "-2.0 4.0")
        self.assertEqual("{:.2f}".format(x[0, 0]), "1.50")
        self.assertEqual([float(v) for v in x[1]], [0.0, 4.0])
        self.assertEqual((x.item(0, 0), int(x[1, 1]), bool(x[1, 0])), (1.5, 4, False))
        self.assertEqual(x[:, 0].tolist(), [1.5, 0.0])


if __name__ == "__main__":
    unittest.main()
