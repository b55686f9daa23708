"""soma-nki's options look at every kernel call of a script that is not edited."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.abspath(os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki"))
SCRIPT = '''
import numpy as np, sys
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def swap(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    z = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    me = nl.program_id(0)
    t = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[nl.ds(me * 64, 64), :])
    nisa.dma_copy(dst=y[nl.ds(me * 64, 64), :], src=t)
    nisa.dma_copy(dst=t, src=y[nl.ds((1 - me) * 64, 64), :])  # the other core's half
    nisa.dma_copy(dst=z[nl.ds(me * 64, 64), :], src=t)
    return z

@nki.jit
def twice(x):
    nl.store(x, nl.load(x) * 2)

x = np.ones((128, 512), np.float32)
if "race" in sys.argv:
    swap[2](x)
twice(x)
print(x[0, 0], sys.argv[1:])
if "fail" in sys.argv:
    raise ValueError("of the script")
'''


WORLD = '''
import sys
import numpy as np
import nki, nki.isa as nisa, nki.language as nl, nki.collectives as ncc, soma

@nki.jit
def total(x, group):
    src, dst = (nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    nisa.dma_copy(dst=src[0:2], src=x[0:2])  # and not the rows after them
    ncc.all_reduce(srcs=[src], dsts=[dst], replica_group=group, op=nl.add)
    return dst

x, calls = np.random.rand(4, 64).astype(np.float32), []
if "processes" in sys.argv:
    print(total(x, [[0, 1]]).shape)
else:
    world = soma.world(ranks=2)
    run = world.run(total, lambda rank: calls.append(rank) or dict(x=x, group=[[0, 1]]))
    print(run[1].result.shape, calls, world.options)
'''


class Look(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name
        with open(os.path.join(self.folder, "script.py"), "w") as f:
            f.write(SCRIPT)

    def tearDown(self):
        self.scratch.cleanup()

    def run_it(self, *words, command=(COMMAND,), **environment):
        done = subprocess.run(list(command) + list(words), cwd=self.folder, capture_output=True,
                              text=True, env=dict(os.environ, SOMA_PYTHON=sys.executable,
                                                  PYTHONDONTWRITEBYTECODE="1", **environment))
        return done.returncode, done.stdout, done.stderr

    def test_worlds_of_the_script(self):
        with open(os.path.join(self.folder, "world.py"), "w") as f:
            f.write(WORLD)
        status, out, err = self.run_it("--check=uninit", "--schedules", "2", "--page", "pages",
                                       "--trace", "pages", "--timeline", "--explain", "--json",
                                       "out.json", "world.py")
        self.assertEqual((status, out), (3, "(4, 64) [0, 1] {}\n"), err)
        self.assertRegex(err, "kernel call 1, total: rank 0: world.py:10: uninit: .*\n")
        self.assertRegex(err, r"rank 1\n(.*\n)+critical path: (.*\n)+.* rank \d cc0")
        with open(os.path.join(self.folder, "out.json")) as f:
            told = json.load(f)
        self.assertEqual([len(c["findings"]) for c in told["calls"]], [1])
        self.whole_page()

    def test_worlds_of_processes(self):
        with open(os.path.join(self.folder, "world.py"), "w") as f:
            f.write(WORLD)
        status, out, err = self.run_it("-n", "2", "--page", "pages", "--trace", "pages",
                                       "--timeline", "--explain", "world.py", "processes")
        self.assertEqual((status, out), (0, "(4, 64)\n" * 2), err)
        self.assertRegex(err, r"rank 0: rank 1\n(.*\n)+rank 0: critical path: (.*\n)+.* rank 1 cc0")
        self.whole_page()

    def whole_page(self):
        with open(os.path.join(self.folder, "pages", "01-total.html")) as f:
            self.assertIn('"world":{"instance":', f.read())
        with open(os.path.join(self.folder, "pages", "01-total.json")) as f:
            self.assertIn('"rank 1 engines"', f.read())

    def test_a_kernel_that_is_checked_is_recorded_once(self):
        with open(os.path.join(self.folder, "counts.py"), "w") as f:
            f.write("import numpy as np, nki, nki.language as nl\n"
                    "class Allocator:\n    at = 0\n"
                    "a = Allocator()\n\n@nki.jit\ndef kernel(x):\n"
                    "    a.at += 8 * x.shape[1] * 4\n"
                    "    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, a.at))\n"
                    "    t[...] = nl.load(x)\n    nl.store(x, t * 2.0)\n"
                    "kernel(np.ones((8, 8), np.float32))\nprint(a.at)\n")
        self.assertEqual(self.run_it("--check", "--schedules", "4", "counts.py"), (0, "256\n", ""))

    def test_disable_dge(self):
        """Transfers have descriptors that are made before the run, in children too."""
        with open(os.path.join(self.folder, "dge.py"), "w") as f:
            f.write(SCRIPT + """
import re
program = twice.program(x)
print(sorted(set(re.findall("dge=[a-z]+", program.source()))), program.bytes()[1:4])
""")
        status, out, err = self.run_it("--disable-dge", "dge.py")
        self.assertIn("['dge=none'] b'SBC'", out, err)
        self.assertNotIn("['dge=none']", self.run_it("dge.py")[1])
        self.assertIn("--disable-dge takes no value", self.run_it("--disable-dge=1", "dge.py")[2])

    def test_optimize_2_tries_policies(self):
        status, out, said = self.run_it("--optimize", "2", "--report", "script.py")
        self.assertEqual(status, 0, said)
        self.assertIn("2.0 []", out)
        self.assertRegex(said, r"policies, us of a run:\n  as the front end says +\d")
        self.assertEqual(said.count("  chosen"), 1)
        status, _, said = self.run_it("--optimize", "3", "script.py")
        self.assertEqual(status, 2)
        self.assertIn("--optimize 3: it is 0, 1 or 2", said)

    def test_advice(self):
        status, _, said = self.run_it("--advice", "script.py")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"^kernel call 1, twice, [\d.]+ us\nnothing that was tried saves")

    def json(self, name="out.json"):
        with open(os.path.join(self.folder, name)) as f:
            return json.load(f)

    def test_findings_are_told_counted_and_give_status_3(self):
        status, out, err = self.run_it("--check=race", "--json", "out.json", "script.py", "race")
        self.assertEqual((status, out), (3, "2.0 ['race']\n"), err)
        self.assertRegex(err, r"kernel call 1, swap: script.py:1\d: race: ")
        found = self.json()
        self.assertEqual([c["kernel"] for c in found["calls"]], ["swap", "twice"])
        first, second = found["calls"]
        self.assertEqual(found["findings"], len(first["findings"]))
        self.assertEqual((first["findings"][0]["check"], second["findings"]), ("race", []))
        self.assertGreater(second["time_us"], 1)

    def test_a_clean_script_ends_as_without_options(self):
        for words in (("--check", "--schedules", "3"), ("--timeline",), ()):
            status, out, _ = self.run_it(*words, "script.py", "--check")
            self.assertEqual((status, out), (0, "2.0 ['--check']\n"))

    def test_an_error_of_the_script_is_in_the_json(self):
        status, _, err = self.run_it("--check", "--json=out.json", "script.py", "race", "fail")
        self.assertEqual(status, 1)
        self.assertIn("ValueError: of the script", err)
        self.assertEqual(self.json()["error"], "ValueError: of the script")

    def test_files_of_each_call(self):
        self.run_it("--page", "pages", "--trace=traces", "script.py", "race")
        names = sorted(glob.glob("*/*", root_dir=self.folder) if sys.version_info >= (3, 10) else
                       [os.path.relpath(p, self.folder) for p in
                        glob.glob(os.path.join(self.folder, "*", "*"))])
        self.assertEqual(names, ["pages/01-swap.html", "pages/02-twice.html",
                                 "traces/01-swap.json", "traces/02-twice.json"])
        with open(os.path.join(self.folder, "traces/02-twice.json")) as f:
            self.assertTrue(json.load(f)["traceEvents"])

    def test_what_is_printed_goes_to_standard_error(self):
        status, out, err = self.run_it("--timeline", "--report", "--explain", "--log", "script.py")
        self.assertEqual((status, out), (0, "2.0 []\n"))
        for text in ("kernel call 1, twice, ", "engines: # busy", "in the program", "script.py:19"):
            self.assertIn(text, err)

    def test_all_calls_on_one_timeline(self):
        status, out, err = self.run_it("--session", "script.py", "race")
        self.assertEqual((status, out), (0, "2.0 ['race']\n"))
        self.assertRegex(err, r"(?m)^2 kernel calls, .* launches 38.00 us, copies ")
        for row in ("swap ", "twice "):
            self.assertRegex(err, r"(?m)^%s *\|.*#.*\|" % row)
        self.assertRegex(err, r"  twice  script.py:\d+\n")
        self.assertNotIn("kernel calls", self.run_it("--session", "-c", "import nki")[2])
        status, out, err = self.run_it("--session=all.html", "script.py")
        self.assertEqual((status, out, err), (0, "2.0 []\n", ""))
        with open(os.path.join(self.folder, "all.html")) as f:
            self.assertIn("<summary>twice, script.py:", f.read())

    def test_the_machine(self):
        _, out, _ = self.run_it("--timing-only", "--threads", "1", "script.py")
        self.assertNotEqual(out, "2.0 []\n")  # no values are calculated
        for target in ("trn1", "trn3"):
            self.run_it("--target", target, "--json", target, "script.py")
        self.assertNotEqual(self.json("trn1")["calls"][0]["time_us"],
                            self.json("trn3")["calls"][0]["time_us"])
        with open(os.path.join(self.folder, "slow.costs"), "w") as f:
            f.write("DMA_SW_BASE 90000\n")
        self.run_it("--json", "usual", "script.py")
        status, _, err = self.run_it("--costs", "slow.costs", "--json", "slow", "script.py")
        self.assertEqual(status, 0, err)
        self.assertGreater(self.json("slow")["calls"][0]["time_us"],
                           self.json("usual")["calls"][0]["time_us"] + 50)

    def test_children_have_the_options(self):
        with open(os.path.join(self.folder, "parent.py"), "w") as f:
            f.write("import subprocess, sys, os\nos.mkdir('sub')\n"
                    "subprocess.run([sys.executable, '../script.py', 'race'], cwd='sub')\n")
        environment = self.run_it("--check=race", "--json", "out.json", "--env")[1]
        status, _, err = self.run_it(
            "-c", environment + "python3 parent.py", command=("sh",))
        self.assertIn("kernel call 1, swap: ", err)
        self.assertEqual(len(self.json()["calls"]), 2)

    def test_options_of_the_environment(self):
        self.assertEqual(self.run_it("script.py", "race", SOMA_NKI_OPTIONS="--check=race")[0], 3)
        status, _, err = self.run_it("script.py", SOMA_NKI_OPTIONS="--chekc")
        self.assertEqual((status, err), (2, "soma-nki: SOMA_NKI_OPTIONS: there is no option "
                                         "--chekc: --help lists them\n"))

    def test_wrong_options(self):
        for words, said in (
                (("--bogus", "script.py"), "there is no option --bogus: --help lists them"),
                (("--page",), "--page needs a value: DIR"),
                (("--check", "--sandbox", "script.py"), "--sandbox comes first"),
                (("--dap", "script.py"), "--dap stands alone"),
                (("--log=3", "script.py"), "--log takes no value"),
                (("--check=fast", "script.py"),
                 "--check=fast: no check is called 'fast'; there are all, uninit, race, "),
                (("--schedules", "0", "script.py"),
                 "--schedules 0: expected a whole number, 1 or more"),
                (("--threads=x", "script.py"), "--threads x: expected a whole number, 0 or more"),
                (("--target", "trn9", "script.py"), "--target trn9: there are trn1, inf2, "),
                (("--costs", "no.costs", "script.py"), "--costs no.costs: [Errno 2] No such"),
                (("--costs", "script.py", "script.py"), "--costs script.py: ")):
            status, out, err = self.run_it(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn("soma-nki: " + said, err)


if __name__ == "__main__":
    unittest.main()
