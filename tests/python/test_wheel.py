"""The wheel that pip makes of python/: what is in it, and that its command runs."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


class Wheel(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        spec = importlib.util.spec_from_file_location(
            "wheel_backend", os.path.join(ROOT, "python", "wheel_backend.py"))
        backend = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(backend)
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

    def test_its_command_runs(self):
        self.wheel.extractall(self.scratch.name)
        done = subprocess.run(
            [sys.executable, os.path.join(self.scratch.name, "soma", "nki_main.py"), "-c",
             "import nki, soma, sys; print(nki.__file__, soma.__file__, sys.path[-1])"],
            capture_output=True, text=True, env=dict(
                os.environ, PYTHONPATH=self.scratch.name, PYTHONDONTWRITEBYTECODE="1",
                SOMA_LIB=os.path.join(ROOT, os.environ.get("BUILD", "build"), "libsoma.so")))
        self.assertEqual(done.returncode, 0, done.stderr)
        within = [os.path.relpath(p, self.scratch.name) for p in done.stdout.split()]
        self.assertEqual(within, ["soma/names/nki/__init__.py", "soma/__init__.py",
                                  "soma/names/compat"])
