"""The scripts of samples/nki run through soma-nki without findings, and print what they show; so
does the README's."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")


def run(*arguments, folder=ROOT):
    done = subprocess.run([COMMAND] + list(arguments), cwd=folder, capture_output=True, text=True,
                          env=dict(os.environ, SOMA_PYTHON=sys.executable,
                                   PYTHONDONTWRITEBYTECODE="1"))
    return done.returncode, done.stdout + done.stderr


class Samples(unittest.TestCase):
    def expect(self, name, *texts):
        status, out = run("--check", "--schedules", "2", "samples/nki/%s.py" % name)
        self.assertEqual(status, 0, out)
        for t in texts:
            self.assertRegex(out, t)

    def test_vector_add(self):
        self.expect("vector_add", r"512 +4 +\d+", r"vector +\|", "checks find nothing")

    def test_flash_attention(self):
        self.expect("flash_attention", r"flash_attention +\d+", "critical path")

    def test_two_cores(self):
        self.expect("two_cores", r"by_rows +[\d.]+ +[\d.]+", r"core 1\ntensor +\|")

    def test_tune_matmul(self):
        status, out = run("--check", "samples/nki/tune_matmul.py", "256")
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"^150 of 225 are possible\n +7.\d us  {(.|\n)*right: True")

    def test_tensor_parallel(self):
        self.expect("tensor_parallel", r"1 rank .* us", r"4 ranks, 4 all-reduces: +[\d.]+ us")

    def test_ring_attention(self):
        self.expect("ring_attention", r"1 rank : +[\d.]+ us", r"4 ranks: +[\d.]+ us")

    def test_all_reduce(self):
        self.expect("all_reduce", r"section cc0\n +wait_start gpsimd", r"op=add", "in \\d+ transf")

    def test_race(self):
        self.expect("race", "still right", r"samples/nki/race.py:\d+: race: scalar")

    def test_the_readmes_kernel(self):
        with open(os.path.join(ROOT, "python", "README.md")) as f:
            code = re.search(r"```python\n(.*?)```", f.read(), re.S).group(1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kernel.py")
            with open(path, "w") as f:
                f.write(code)
            status, out = run(path, folder=folder)
            self.assertEqual(status, 0, out)
            self.assertRegex(out, r"True\n\d+\.\d+ us;(.|\n)*\[\]")
            self.assertTrue(os.path.exists(os.path.join(folder, "add.html")))

    def test_the_command_says_what_is_wrong(self):
        self.assertRegex(run("--help")[1], "usage: soma-nki \[OPTIONS\] SCRIPT")
        self.assertEqual(run("no/such.py"), (2, "soma-nki: no file no/such.py\n"))
        self.assertEqual(run("-c"), (2, "soma-nki: -c needs Python code\n"))
        self.assertEqual(run("-m"), (2, "soma-nki: -m needs a module\n"))
        status, said = run("-c", "1 / 0")
        self.assertEqual((status, said.splitlines()[:2]), (1, [
            "Traceback (most recent call last):", '  File "<string>", line 1, in <module>']))
        self.assertEqual(run("-m", "no.such"), (2, "soma-nki: there is no module no.such\n"))
        self.assertEqual(run("--versoin"), (
            2, "soma-nki: there is no option --versoin: --help lists them\n"))
        for status in (256, 300, -1):
            said = "soma-nki: the script called sys.exit(%d): an exit status is 0 to 255\n" % status
            self.assertEqual(run("-c", "import sys; sys.exit(%d)" % status), (1, said))
        self.assertEqual(run("-c", "import sys; sys.exit(7)"), (7, ""))
        status, out = run("-c", "import sys; print(sys.argv)", "a", "b")
        self.assertEqual(out, "['-c', 'a', 'b']\n")


if __name__ == "__main__":
    unittest.main()
