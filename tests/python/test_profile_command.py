"""The command neuron-profile over files that nki.benchmark saved."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
BIN = os.path.join(ROOT, "python", "soma", "bin")
SCRIPT = '''
import subprocess
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

def twice(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x) * 2)
    return y

bench = nki.benchmark(warmup=5, iters=20, save_neff_name="one.neff", save_trace_name="two.ntff",
                      additional_compile_opt="--disable-dge")(twice)
bench(np.ones((128, 512), np.float32))
print(bench.benchmark_result.nc_latency.get_latency_percentile(99))
subprocess.run(["neuron-profile", "capture", "-n", "one.neff", "-s", "one.ntff"], check=True)
'''


class NeuronProfile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = cls.scratch.name
        with open(os.path.join(cls.folder, "script.py"), "w") as f:
            f.write(SCRIPT)
        cls.script = cls.run_it(COMMAND, "script.py")
        cls.latency = float(cls.script[1].split()[-1]) - 10  # after the table; without the launch

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def run_it(cls, *words, path=BIN):
        done = subprocess.run(words, cwd=cls.folder, capture_output=True, text=True, env=dict(
            os.environ, SOMA_PYTHON=sys.executable, PYTHONDONTWRITEBYTECODE="1",
            PATH=os.environ["PATH"] if words[0] == COMMAND else path + ":" + os.environ["PATH"]))
        return done.returncode, done.stdout, done.stderr

    def test_a_script_captures_and_is_told_that_nothing_ran(self):
        status, _, err = self.script
        self.assertEqual(status, 0, err)
        self.assertIn("neuron-profile (Soma): capture runs nothing", err)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "one.ntff")))

    def test_summary_text_has_the_vendors_form_and_keys(self):
        status, out, err = self.run_it("neuron-profile", "view", "--output-format", "summary-text",
                                       "-n", "one.neff", "-s", "one.ntff")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.splitlines()[0], "n_twice")
        found = dict(re.fullmatch(r"    (\w+) +(\S.*)", line).groups()
                     for line in out.splitlines()[1:])
        self.assertAlmostEqual(float(found["total_time"]) * 1e6, self.latency, 6)
        self.assertEqual(found["hbm_read_bytes"], str(128 * 512 * 4))
        for key in ("hfu_estimated_percent", "mbu_estimated_percent", "dma_transfer_count",
                    "vector_engine_active_time", "tensor_engine_instruction_count", "nc_idx",
                    "software_dynamic_dma_size", "total_active_time_percent"):
            self.assertIn(key, found)
        # a share is a fraction of 1, as the vendor's
        self.assertAlmostEqual(float(found["total_active_time_percent"]),
                               float(found["total_active_time"]) / float(found["total_time"]), 5)

    def test_summary_json(self):
        for files in (("-s", "one.ntff"), ("-n", "one.neff"), ("-s", "two.ntff"),
                      ("-n", "one.neff", "-s", "absent.ntff")):
            status, out, err = self.run_it("neuron-profile", "view", *files,
                                           "--output-format=summary-json")
            self.assertEqual(status, 0, err)
            self.assertAlmostEqual(json.loads(out)["n_twice"]["total_time"] * 1e6, self.latency, 6)

    def test_capture_of_the_nth_execution(self):
        status, _, err = self.run_it("neuron-profile", "capture", "-n", "one.neff", "-s", "p.ntff",
                                     "--num-exec", "20", "--profile-nth-exec", "10")
        self.assertEqual(status, 0, err)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "p_exec_20.ntff")))

    def test_what_is_refused(self):
        for words, said in (
                (("capture", "-n", "script.py"), "no figures were saved for script.py"),
                (("view", "--output-format", "summary-text"), "give the program"),
                (("view", "-n", "one.neff", "--output-format", "db"), "invalid choice: 'db'")):
            status, out, err = self.run_it("neuron-profile", *words)
            self.assertNotEqual(status, 0)
            self.assertEqual(out, "")
            self.assertIn(said, err)

    def test_the_vendors_own_comes_first(self):
        with tempfile.TemporaryDirectory() as folder:
            own = os.path.join(folder, "neuron-profile")
            with open(own, "w") as f:
                f.write("#!/bin/sh\necho the real one: $1\n")
            os.chmod(own, 0o755)
            self.assertEqual(self.run_it("neuron-profile", "view", path=BIN + ":" + folder)[:2],
                             (0, "the real one: view\n"))
