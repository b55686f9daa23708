"""The wheel that pip makes of python/, and that of `make wheel`: what is in them, and they run."""
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))

spec = importlib.util.spec_from_file_location(
    "wheel_backend", os.path.join(ROOT, "python", "wheel_backend.py"))
backend = importlib.util.module_from_spec(spec)
spec.loader.exec_module(backend)


class Wheel(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        name = backend.build_wheel(self.scratch.name)
        self.wheel = zipfile.ZipFile(os.path.join(self.scratch.name, name))

    def tearDown(self):
        self.wheel.close()
        self.scratch.cleanup()

    def test_what_is_in_it(self):
        names = self.wheel.namelist()
        for name in ("soma/lib.py", "soma/names/nki/isa/__init__.py", "soma/pytest_plugin.py",
                     "soma/names/compat/torch_xla/core/xla_model.py", "soma/bin/neuron-profile"):
            self.assertIn(name, names)
        for name in ("soma/bin/neuron-profile", "soma/bin/python3"):  # a file that may be run
            self.assertEqual(self.wheel.getinfo(name).external_attr >> 16, 0o100755)
        info = [n for n in names if n.endswith("entry_points.txt")]
        said = self.wheel.read(info[0]).decode()
        self.assertIn("[console_scripts]\nsoma-nki = soma.nki_main:command\n", said)
        self.assertIn("[pytest11]\nsoma.pytest_plugin = soma.pytest_plugin\n", said)

    def run_python(self, *words):
        """What Python prints that has the wheel's files."""
        self.wheel.extractall(self.scratch.name)
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, env=dict(
                os.environ, PYTHONPATH=self.scratch.name, PYTHONDONTWRITEBYTECODE="1",
                SOMA_LIB=os.path.join(BUILD, "libsoma.so")))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_programs_of_a_world_need_no_nki(self):
        self.assertEqual(self.run_python("-c", """if True:
            import importlib.util, soma
            assert not importlib.util.find_spec("nki")
            p = soma.Machine("trn2").assemble("target trn2\\nsection sync\\nhalt\\n")
            print(soma.world(ranks=2).check(p))"""), "[]\n")

    def test_its_command_runs(self):
        said = self.run_python(
            os.path.join(self.scratch.name, "soma", "nki_main.py"), "-c",
            "import nki, soma, sys; print(nki.__file__, soma.__file__, sys.path[-1])")
        within = [os.path.relpath(p, self.scratch.name) for p in said.split()]
        self.assertEqual(within, ["soma/names/nki/__init__.py", "soma/__init__.py",
                                  "soma/names/compat"])


def library(*strings, machine=62):
    """The parts of an ELF file that a wheel's name depends on."""
    return (b"\x7fELF\x02\x01" + bytes(12) + machine.to_bytes(2, "little") + b"\0" +
            b"".join(s.encode() + b"\0" for s in strings))


class WithLibrary(unittest.TestCase):
    def test_the_platform(self):
        here = "libc.so.6", "libm.so.6", "libsoma.so.0", "GLIBC_2.2.5"
        for lib, want in (
                (library(*here), "manylinux_2_2_x86_64"),
                (library(*here, "GLIBC_2.17", "GLIBC_2.34", machine=183), "manylinux_2_34_aarch64"),
                (library("libc.so", "libsoma.so.0"), "linux_x86_64")):
            self.assertEqual(backend.platform_of(lib), want)
        for lib, why in ((library(*here, "libasan.so.8"), "needs libasan.so.8"),
                         (library(*here, machine=9999), "a processor that pip has no name for"),
                         (b"!<arch>", "is not an ELF file")):
            with self.assertRaisesRegex(ValueError, why):
                backend.platform_of(lib)

    def test_installed_by_pip_without_a_network(self):
        if not importlib.util.find_spec("ensurepip"):
            raise unittest.SkipTest("python3-venv is not installed")
        with open(os.path.join(BUILD, "libsoma.so"), "rb") as f:
            if b"libasan" in f.read():
                raise unittest.SkipTest("this build has sanitizers")
        clean = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        with tempfile.TemporaryDirectory() as folder:
            def run(*words, env=clean):
                done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout
            run("make", "-s", "-C", ROOT, "wheel", "BUILD=" + BUILD, "WHEEL=" + folder,
                env=dict(os.environ, MAKEFLAGS=""))
            wheel, = glob.glob(os.path.join(folder, "*.whl"))
            run(sys.executable, "-m", "venv", "--system-site-packages", "venv")
            run("venv/bin/pip", "install", "--no-index", wheel)
            with open(os.path.join(folder, "one.py"), "w") as f:
                f.write("import numpy as np\nimport nki, nki.language as nl, soma.lib\n"
                        "@nki.jit\ndef twice(x):\n    nl.store(x, nl.load(x) * 2)\n"
                        "x = np.ones((128, 64), np.float32)\ntwice(x)\n"
                        "print(x.sum(), soma.lib.lib._name)\n")
            said = run("venv/bin/soma-nki", "--check", "one.py").split()
            self.assertEqual(said[0], "16384.0")
            self.assertRegex(said[1], "venv/lib/python3[.0-9]*/site-packages/soma/libsoma.so$")
