"""Hypothetical machines from Python: texts, dicts and files, wherever a target is named."""
import contextlib
import io
import os
import subprocess
import tempfile
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma


@nki.jit
def add(a, b):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=c, src=x)
    return c


sizes = []


@nki.jit
def sized(x):
    sizes.append((nl.tile_size.total_available_sbuf_size, nl.tile_size.psum_num_banks))
    y = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x))
    return y


A = np.random.default_rng(1).standard_normal((128, 512), dtype=np.float32)
NAME = "hypothetical trn2, dma_engines=8, vector_clock_ghz=1.92"


class Hypothetical(unittest.TestCase):
    def test_text_dict_and_file_are_one_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "slow.target")
            with open(path, "w") as f:
                f.write("base = trn2\nvector_clock_ghz = 1.92\ndma_engines = 8 # of 16\n")
            asked = ("trn2, vector_clock_ghz=1.92, dma_engines=8", NAME, path,
                     {"base": "trn2", "dma_engines": 8, "vector_clock_ghz": 1.92})
            times = set()
            for target in asked:
                run = add.run(A, A, target=target, checks="all")
                self.assertTrue((run.result == A + A).all())
                self.assertEqual(run.findings, [])
                self.assertIn("<run of add on %s: " % NAME, repr(run))
                self.assertIn("machine       %s\n" % NAME, str(run.summary()))
                self.assertIn(", on " + NAME, str(run.timeline()))
                self.assertEqual(run.run.stats.dma_engines, 8)
                times.add(run.time_us)
                self.assertEqual(add.time(A, A, target=target), run.time_us)
                self.assertEqual(soma.Machine(target).target, NAME)
        self.assertEqual(len(times), 1)
        self.assertNotIn(add.time(A, A), times)

    def test_more_memory_holds_more(self):
        big = np.ones((128, 30 * 1024), np.float32)  # two tiles of 120 KiB a partition
        with self.assertRaisesRegex(soma.SomaError, "does not fit in sbuf"):
            add(big, big)
        self.assertEqual(add.run(big, big, target="trn2, sbuf_kib=256").result[0, 0], 2)

    def test_sizes_are_the_machine_s(self):
        sized.run(A)
        sized.run(A, target="trn2, sbuf_kib=384, psum_banks=4")
        sized.run(A, target="trn1")
        self.assertEqual(sizes, [(224 * 1024, 8), (384 * 1024, 4), (192 * 1024, 8)])

    def test_what_is_no_machine_is_refused_by_name(self):
        for target, message in (("trn9", "trn9"), ("trn2, x=1", "there is no 'x'"),
                                ({"sbuf_kib": 3}, "names no base"),
                                ({"base": "trn9"}, "unknown target 'trn9'"),
                                ({"base": "trn2", "dma_engines": 32},
                                 "dma_engines is 32.*more are not built"),
                                ({"base": "trn2", "NO_SUCH": 1}, "no constant NO_SUCH")):
            for call in (lambda: add.run(A, A, target=target),
                         lambda: add.time(A, A, target=target),
                         lambda: soma.Machine(target), lambda: soma.world(ranks=2, target=target),
                         lambda: soma.device("neuron:9", target=target)):
                with self.assertRaisesRegex(soma.SomaError, message):
                    call()

    def test_devices_and_their_arithmetic(self):
        device = soma.device("neuron:7", target={"base": "trn2", "dma_engines": 4})
        x = device.array(A)
        kernel = nki.jit(add, platform_target="trn2, dma_engines=4")
        np.testing.assert_array_equal((x + x).numpy(), A + A)
        np.testing.assert_array_equal(kernel(x, x).numpy(), A + A)
        self.assertIn("hypothetical trn2, dma_engines=4", repr(device))
        self.assertIs(soma.device("neuron:7", target="trn2, dma_engines=4"), device)
        device.close()

    def test_worlds_build_their_kernels_for_it(self):
        given = [dict(a=A, b=A * rank) for rank in range(2)]
        w = soma.world(ranks=2, target={"base": "trn2", "dma_engines": 4}, record=True)
        got = w.run(nki.jit(add, platform_target="trn1"), given)
        np.testing.assert_array_equal(got[1].result, A + A)
        self.assertEqual(got[0].time_us, add.time(A, A, target="trn2, dma_engines=4"))
        self.assertIn("on 2 ranks of trn2.3xlarge, hypothetical trn2, dma_engines=4: ", repr(got))
        self.assertIn("hypothetical trn2, dma_engines=4", got.page())
        self.assertEqual(w.check(add, given), [])
        self.assertEqual(w.plan(add, given).target, "hypothetical trn2, dma_engines=4")
        self.assertEqual(repr(soma.world(ranks=2).run(add, given)).split(": ")[0],
                         "<run of add on 2 ranks of trn2.3xlarge")
        with self.assertRaisesRegex(IndexError, "rank 2: the ranks are 0 to 1"):
            got[2]
        program = soma.Machine("trn2").assemble("target trn2\nsection gpsimd\nhalt\n")
        with self.assertRaisesRegex(soma.SomaError, "the world's target is hypothetical trn2, "
                                    "dma_engines=4, but what it runs is built for trn2"):
            w.run(program, {})

    def test_the_command_takes_one(self):
        command = [os.path.join(os.environ.get("BUILD", "build"), "soma-nki")]
        script = "import nki.language as nl; print(nl.tile_size.sbuf_size_bytes)"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.py")
            with open(path, "w") as f:
                f.write(script)
            run = lambda target: subprocess.run(command + ["--target", target, path],
                                                capture_output=True, text=True)
            self.assertEqual(run("trn2, sbuf_kib=100").stdout, "%d\n" % (100 * 1024 * 128))
            self.assertEqual(run("trn2").stdout, "%d\n" % (224 * 1024 * 128))
            self.assertRegex(run("trn2, sbuf=1").stderr, "--target: .*there is no 'sbuf'")
            self.assertRegex(run("trn2x").stderr, "--target trn2x: there are trn1")

    def test_the_manual_s_example_runs(self):
        with open("python/README.md") as f:
            text = f.read().split("<!-- example: hypothetical -->")[1]
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(text.split("```python\n")[1].split("```")[0], {"add": add, "a": A, "soma": soma})
        self.assertIn("<run of add on hypothetical trn2, sbuf_kib=384", told.getvalue())
        rows = [line.split() for line in told.getvalue().splitlines()[2:]]
        times = [float(r[1]) for r in rows]
        self.assertEqual([r[0] for r in rows], ["4", "8", "16"])
        self.assertEqual(times, sorted(times, reverse=True))


if __name__ == "__main__":
    unittest.main()
