"""soma-nki --sandbox: what a script may do there, verdicts, statuses, JSON, outputs against what
is expected; skipped where libseccomp.so.2 or Landlock are missing."""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

from soma import confined

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
HEAD = "import numpy as np, nki, nki.isa as nisa, nki.language as nl, soma\n"
with open(os.path.join(ROOT, "python", "README.md"), encoding="utf-8") as manual:
    TWICE = manual.read().split("<!-- example: sandbox -->\n```python\n")[1].split("```")[0]
UNWRITTEN = HEAD + """@nki.jit
def kernel(a):
    out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 64), a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[0:64], src=a[0:64])
    nisa.dma_copy(dst=out, src=t)
    return out
kernel(np.ones((128, 64), np.float32))
"""
FORGE = """import os, stat
for fd in range(3, 64):
    try:
        os.write(fd, ending if stat.S_ISFIFO(os.fstat(fd).st_mode) else output)
    except OSError:
        pass
os._exit(0)
"""
try:
    ctypes.CDLL("libseccomp.so.2")
    WHY = "" if ctypes.CDLL(None).syscall(confined._LANDLOCK, None, 0, 1) > 0 else \
        "this kernel has no Landlock"
except OSError:
    WHY = "libseccomp2 is not installed"
with open("/proc/self/maps") as maps:
    if "libasan" in maps.read():
        WHY = "a build with sanitizers has no filter"


@unittest.skipIf(WHY, WHY)
class Sandbox(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
        want = x * 2
        self.save("x", x)
        self.save("right", want)
        want[3, 5] += 1
        self.save("wrong", want)

    def tearDown(self):
        self.scratch.cleanup()

    def path(self, name):
        return os.path.join(self.scratch.name, name)

    def save(self, name, values):
        np.save(self.path(name + ".npy"), values)

    def run_it(self, code, *words):
        """(status, what --json says, standard error)."""
        with open(self.path("s.py"), "w") as f:
            f.write(code)
        done = subprocess.run([COMMAND, "--sandbox", "--json", "-", *words, "s.py"],
                              cwd=self.scratch.name, capture_output=True, text=True,
                              env=dict(os.environ, SOMA_PYTHON=sys.executable, SECRET="s"))
        return done.returncode, json.loads(done.stdout, parse_constant=self.fail), done.stderr

    def ends(self, code, *words, status, verdict="error", message):
        got, told, said = self.run_it(code, *words)
        self.assertEqual((got, told["status"], told["verdict"]), (status, status, verdict),
                         (told, said))
        self.assertRegex(told["message"], message)
        return told

    def test_right_and_wrong(self):
        words = "--in", "x=x.npy", "--out", "y=y.npy", "--expect"
        status, told, said = self.run_it(TWICE + "print('hello')\n", *words, "y=right.npy")
        self.assertEqual((status, told["verdict"], told["message"], said), (0, "ok", None, ""))
        self.assertEqual((told["stdout"], told["stderr"]), ("hello\n", ""))
        self.assertTrue(told["expect"]["y"]["right"])
        self.assertEqual([c["kernel"] for c in told["calls"]], ["twice"])
        self.assertGreater(told["calls"][0]["time_us"], 1)
        got, right = np.load(self.path("y.npy")), np.load(self.path("right.npy"))
        self.assertTrue(np.array_equal(got, right))
        told = self.ends(TWICE, *words, "y=wrong.npy", status=1,
                         message=r"^y: element \[3, 5\] is 394, expected 395; 1 of 8192 elements "
                                 r"differ \(rtol 1e-05, atol 1e-08\)$")
        self.assertEqual(told["expect"]["y"]["at"], [3, 5])
        self.assertEqual(self.run_it(TWICE, *words, "y=wrong.npy", "--atol", "1")[0], 0)

    def test_outputs_that_are_no_real_numbers(self):
        self.save("complex", np.array([1 + 2j]))
        self.save("strings", np.array(["a"]))
        self.save("one", np.array([1.0]))
        code = "import numpy as np, soma\nsoma.outputs['y'] = np.array([1 + 2j])\n"
        self.ends(code, "--expect", "y=one.npy", status=1,
                  message="^y: it has complex128, which are no real numbers$")
        told = self.ends(code.replace("1 + 2j", "np.nan"), "--expect", "y=one.npy", status=1,
                         message=r"^y: element \[0\] is nan, expected 1; 1 of 1 elements differ")
        self.assertEqual((told["expect"]["y"]["got"], told["expect"]["y"]["expected"]), (None, 1))
        for name in "complex", "strings":
            self.ends(code, "--expect", "y=%s.npy" % name, status=2, verdict="host",
                      message="^%s.npy: it has .*, which are no real numbers$" % name)

    def test_forged_endings(self):
        """A script that writes to the files it has can make itself fail, but not pass."""
        words = "--in", "x=x.npy", "--expect", "y=right.npy"
        large = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}" % (1 << 70)
        large = b"\x93NUMPY\x01\x00\x70\x00" + large.ljust(111).encode() + b"\n"
        good = b'{"status": 0, "calls": []}'
        for ending, output, message in (
                (b'{"status": 0, "calls": [1]}', b"", "without a word"),
                (b'{"status": 0, "calls": [{"findings": [{}]}]}', b"", "without a word"),
                (b'{"status": 256, "calls": []}', b"", "without a word"),
                (b'{"status": -256, "calls": []}', b"", "without a word"),
                (b"[" * 30000, b"", "without a word"),
                (good, b"", r"^soma.outputs\['y'\]: "),
                (good, large, r"^soma.outputs\['y'\]: ")):
            with self.subTest(ending[:60]):
                code = "ending, output = %r, %r\n%s" % (ending, output, FORGE)
                got, told, _ = self.run_it(code, *words)
                self.assertIn(got, (1, 104))
                self.assertRegex(told["message"], message)

    def test_findings(self):
        self.assertEqual(self.run_it(UNWRITTEN)[0], 0)
        told = self.ends(UNWRITTEN, "--check", status=1, message="^s.py:7: uninit: ")
        self.assertEqual(told["calls"][0]["findings"][0]["line"], 7)
        self.assertEqual(told["findings"], len(told["calls"][0]["findings"]))
        calls = "print(twice.check(soma.inputs['x'], schedules=3), 'of three')\n"
        told = self.run_it(TWICE + calls, "--in", "x=x.npy", "--out", "y=y.npy", "--check",
                           "--schedules", "4", "--threads", "2")[1]
        self.assertEqual((told["message"], told["stdout"]), (None, "[] of three\n"))

    def test_what_it_may_not(self):
        tries = ["open('/etc/passwd')", "open(%r)" % self.path("x.npy"), "open('/proc/self/maps')",
                 "open('/tmp/new', 'w')", "os.listdir('/etc')", "socket.socket()", "os.fork()",
                 "subprocess.run(['true'])", "os.kill(os.getppid(), 15)", "os.mkdir('/tmp/new')",
                 "os.unlink(%r)" % self.path("x.npy"), "threading.Thread(target=print).start()",
                 "os.rename(%r, '/tmp/new')" % self.path("x.npy"), "os.environ['SECRET']",
                 "os.chmod(%r, 0)" % self.path("x.npy")]
        code = "import os, socket, subprocess, threading, sqlite3\n"  # imports read sys.path
        for n, text in enumerate(tries):
            code += "try:\n    %s\n    print('did', %d)\n" % (text, n)
            code += "except (OSError, RuntimeError, KeyError):\n    pass\n"
        status, told, _ = self.run_it(code + "print('end')\n")
        self.assertEqual((status, told["stdout"]), (0, "end\n"), told)

    def test_a_path_of_python_that_is_relative_opens_no_folder(self):
        code = "for name in '/etc/passwd', %r:\n    try:\n        print(open(name).read())\n" \
               "    except OSError:\n        print('refused')\n" % self.path("x.npy")
        for path in ":", ".", "/nowhere::..":
            with mock.patch.dict(os.environ, PYTHONPATH=path):
                self.assertEqual(self.run_it(code)[1]["stdout"], "refused\nrefused\n", path)

    def test_it_may_import_from_a_folder_that_is_named(self):
        os.mkdir(self.path("lib"))
        with open(self.path("lib/own_helper.py"), "w") as f:
            f.write("value = 7\n")
        code = "import own_helper\nprint(own_helper.value)\n"
        self.assertEqual(self.run_it(code, "--import", "lib")[1]["stdout"], "7\n")
        self.ends(code, status=1, message=r"^s.py:1: ModuleNotFoundError: .*own_helper")

    def test_errors_have_their_line(self):
        told = self.ends("x = 1\ndef f():\n    return x / 0\nf()\n", status=1,
                         message="^s.py:3: ZeroDivisionError: division by zero$")
        self.assertEqual((told["file"], told["line"]), ("s.py", 3))
        self.ends("x =\n", status=1, message="^s.py:1: SyntaxError: invalid syntax")
        self.ends(HEAD + "@nki.jit\ndef k(a):\n    nisa.activation(dst=a, op=nl.exp, data=a)\n"
                  "k(np.ones((4, 4), np.float32))\n", status=1, message="^s.py:4: activation dst: ")
        self.ends("pass\n", "--out", "y=y.npy", status=1,
                  message=r"the script has not set soma.outputs\['y'\]$")
        self.ends("import sys\nsys.exit(5)\n", status=5, message=r"sys.exit\(5\)")

        _, told, _ = self.run_it("import numpy as np\ndef f():\n    np.load('x.npy')\nf()\n")
        self.assertRegex(told["message"], r"^s.py:3: .*'x.npy' \(a sandbox's script gets files as ")
        self.assertRegex(told["stderr"], r'^Traceback [^\n]*\n  File "s.py", line 4, in <module>')

    def test_limits(self):
        self.ends("while True: pass\n", "--max-seconds", "8", status=101, verdict="time",
                  message="--max-seconds")
        self.ends("while True: pass\n", "--max-cpu-seconds", "1", status=101, verdict="time",
                  message="--max-cpu-seconds")
        self.ends("x = bytes(1 << 30)\n", "--max-memory", "256M", status=102, verdict="memory",
                  message="--max-memory")
        self.ends("while True: print('x' * 1000)\n", status=103, verdict="output",
                  message="--max-output")
        self.ends("import ctypes\nctypes.string_at(0)\n", status=104, verdict="crash",
                  message="SIGSEGV")
        self.ends("import os\nos._exit(0)\n", status=104, verdict="crash", message="without a word")

    def test_what_fails_before_the_script_is_the_hosts(self):
        ending, tell = os.pipe()
        with open(self.path("job"), "w+") as job, open(self.path("x.npy"), "rb") as x:
            x.read(100)  # the rest is no file of NumPy
            json.dump({"script": "s.py", "arguments": [], "text": "", "filter": True, "imports": [],
                       "memory": 1 << 30, "cpu_seconds": 0, "outputs": {}, "ending": tell,
                       "inputs": {"x": x.fileno()}}, job)
            job.seek(0)
            done = subprocess.run([COMMAND, "--confined", str(job.fileno())],
                                  pass_fds=(job.fileno(), x.fileno(), tell),
                                  env=dict(os.environ, SOMA_PYTHON=sys.executable))
        os.close(tell)
        with open(ending) as f:
            told = json.load(f)
        self.assertEqual((done.returncode, told["status"], told["calls"]), (2, 2, []))
        self.assertTrue(told["message"])

    def test_wrong_command_lines(self):
        for words, message in ((("--in", "x"), "--in takes NAME=FILE.npy, not 'x'"),
                               (("--in", "x=none.npy"), "cannot read 'none.npy': No such file"),
                               (("--page", "p"), "a sandbox has no option --page"),
                               (("--max-memory", "1X"), "--max-memory takes a number of bytes"),
                               (("--bogus",), "there is no option --bogus"),
                               (("--target", "trn9"), "--target trn9: there are ")):
            self.ends("pass\n", *words, status=2, verdict="host", message=message)
        done = subprocess.run([COMMAND, "--sandbox", "--json", "none/v.json", "s.py"], text=True,
                              cwd=self.scratch.name, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (
            2, "soma-nki: host: cannot write 'none/v.json': No such file or directory\n"))


if __name__ == "__main__":
    unittest.main()
