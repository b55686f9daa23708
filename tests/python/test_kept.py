"""Nothing is lost: files on a full disk, machines after Ctrl-C, handles that are copied."""
import copy
import gc
import contextlib
import gzip
import io
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import unittest

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma
from soma import files

PROGRAM = """
        target  trn2
x       tensor  float32[128, 64], input
y       tensor  float32[128, 64], output
t       tile    sbuf float32[128, 64]
s       sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q    $s
        dma_copy  y, t, queue=q    $s>=17
        halt
section scalar
        nop       $s>=16
        device_print "v", t
        activate  t, t, fn=square  $s++
        halt
"""
X = np.arange(128 * 64, dtype=np.float32).reshape(128, 64) / 1000


@nki.jit
def double(a):
    o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)
    nisa.dma_copy(dst=o, src=t)
    return o


class SmallDisk:
    """A write beyond that many bytes of a file fails, as on a disk that is full."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.limit[1]))

    def __exit__(self, *_):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limit)
        signal.signal(signal.SIGXFSZ, self.handler)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def old(self, name):
        with open(self.path(name), "w") as f:
            f.write("OLD " * 10)
        return self.path(name)

    def test_a_full_disk_leaves_the_old_files(self):
        run = double.run(X)
        bench = nki.benchmark(warmup=1, iters=1, save_neff_name=self.old("p.neff"),
                              save_trace_name=self.old("t.json"))(double)
        page = self.old("page.html")
        for write in (lambda: run.page(page), lambda: bench(X)):
            with self.assertRaises(OSError), SmallDisk(200), \
                    contextlib.redirect_stdout(io.StringIO()):  # which may be a file too
                write()
        for name in ("p.neff", "t.json", "page.html"):
            with open(self.path(name)) as f:
                self.assertEqual(f.read(), "OLD " * 10)
        self.assertEqual(sorted(os.listdir(self.folder)), ["p.neff", "page.html", "t.json"])

    def test_what_is_written(self):
        run = double.run(X)
        text = run.page(self.old("page.html"))
        with open(self.path("page.html")) as f:
            self.assertEqual(f.read(), text)
        run.page(self.path("page.html.gz"))
        with gzip.open(self.path("page.html.gz"), "rt") as f:
            self.assertEqual(f.read(), text)
        os.mkdir(self.path("other"))
        os.symlink(self.old("file"), self.path("other/link"))
        files.write(self.path("other/link"), b"new")
        self.assertTrue(os.path.islink(self.path("other/link")))
        with open(self.path("file")) as f:
            self.assertEqual(f.read(), "new")
        files.write("/dev/null", b"nothing")
        umask = os.umask(0o077)
        try:
            files.write(self.path("mine"), b"")
        finally:
            os.umask(umask)
        self.assertEqual(os.stat(self.path("mine")).st_mode & 0o777, 0o600)
        with self.assertRaisesRegex(OSError, "No such file"):
            files.write(self.path("no/folder"), b"")


class Stop(BaseException):
    """What the handler of a signal raises, such as KeyboardInterrupt."""


class Interrupted(unittest.TestCase):
    def stopped_at(self, n, call):
        """Calls; Stop is raised before the n-th operation of Python in the packages, as a signal's
        handler may do. Whether it was."""
        left = [n]

        def local(frame, event, _):
            frame.f_trace_opcodes = True
            if event == "opcode":
                left[0] -= 1
                if left[0] == 0:
                    sys.settrace(None)
                    raise Stop
            return local

        def trace(frame, _event, _):
            name = frame.f_code.co_filename
            # What comes while something is freed is printed, as Python does it, and in callbacks.py
            # signals wait.
            if frame.f_code.co_name in ("__del__", "give_back") or name.endswith("callbacks.py"):
                return None
            if os.sep + "soma" + os.sep in name or os.sep + "nki" + os.sep in name:
                return local(frame, "call", None)
            return None
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            call()
        except Stop:
            return True
        finally:
            sys.settrace(before)
        return False

    def test_at_any_moment_of_a_run(self):
        """The machine runs the next program, wherever the first was stopped."""
        machine = soma.Machine("trn2", print=lambda text, err: None)
        program = machine.assemble(PROGRAM)
        want = machine.run(program, {"x": X}).out["y"]
        n, stopped = 1, 0
        while self.stopped_at(n, lambda: machine.run(program, {"x": X}, log=len)):
            stopped += 1
            if n % 25 == 1:
                np.testing.assert_array_equal(machine.run(program, {"x": X}).out["y"], want)
            else:
                machine.run(program, {"x": X})
            n += 1 + n // 100
        self.assertGreater(stopped, 100)

    def test_at_any_moment_of_a_kernel(self):
        """The same of a kernel that is built."""
        def build_and_run():
            double.builds.clear()
            return double(X)
        want = double(X)
        count, rest = 0, random.Random(5)
        low, high = 1, 1
        while self.stopped_at(high, build_and_run):
            low, high = high, high * 2
        for _ in range(200):
            count += self.stopped_at(rest.randrange(1, low), build_and_run)
            np.testing.assert_array_equal(build_and_run(), want)
        self.assertGreater(count, 190)

    def test_in_a_callback(self):
        """ctypes only prints what a callback raises."""
        machine = soma.Machine("trn2", print=lambda text, err: None)
        program = machine.assemble(PROGRAM)

        def log(_):
            raise KeyError("from log")
        with self.assertRaisesRegex(KeyError, "from log"):
            machine.run(program, {"x": X}, log=log)
        with self.assertRaises(KeyboardInterrupt):
            machine.run(program, {"x": X}, log=lambda _: os.kill(os.getpid(), signal.SIGINT))
        machine.run(program, {"x": X})

        def complain(_text, _err):
            raise ValueError("from print")
        machine = soma.Machine("trn2", print=complain)
        program = machine.assemble(PROGRAM)
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "from print"):
                machine.run(program, {"x": X})

    def test_a_page_has_all_its_parts(self):
        """A signal that comes while libsoma writes is raised at the next part, in the callback."""
        def handler(*_):
            raise Stop
        run = double.run(X)
        want = run.page()
        before = signal.signal(signal.SIGALRM, handler)
        stopped = 0
        try:
            for i in range(60):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-4 * (i + 1))
                    page = run.page()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    self.assertEqual(page, want)
                except Stop:
                    stopped += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(stopped, 0)

    def test_a_recorded_run_that_was_stopped(self):
        """Its events are not those of the next run."""
        def recorded():
            machine = soma.Machine("trn2", record=True, print=lambda text, err: None)
            return machine, machine.assemble(PROGRAM)
        machine, program = recorded()
        want = machine.run(program, {"x": X}).trace()
        machine, program = recorded()

        def log(_):
            raise Stop
        with self.assertRaises(Stop):
            machine.run(program, {"x": X}, log=log)
        self.assertEqual(machine.run(program, {"x": X}).trace(), want)


class Handles(unittest.TestCase):
    def test_they_are_not_copied(self):
        machine = soma.Machine("trn2", record=True, print=lambda text, err: None)
        program = machine.assemble(PROGRAM)
        run = machine.run(program, {"x": X})
        kernel = double.run(X)
        for x in (machine, program, run, run.recorder, kernel.built.program):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                    copied(x)
        with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
            copy.deepcopy(kernel)
        gc.collect()
        for again in (copy.deepcopy(run.out), pickle.loads(pickle.dumps(run.out))):
            np.testing.assert_array_equal(again["y"], X * X)


if __name__ == "__main__":
    unittest.main()
