"""The debugger and the log of kernels: lines in Python, commands over a pipe and in a terminal."""
import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import soma
from helper import KernelCase, data
from nki.collectives import ReplicaGroup
from soma.errors import SomaError

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(HERE, "..", "..", "python")


@nki.jit
def scaled(a):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        x = nl.ndarray(a.shape[1:], dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[i])
        nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=c[i], src=x)
    return c


@nki.jit
def rows(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(nl.program_id(0), x.shape[0], 2):
        t = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[i])
        nisa.reciprocal(dst=t, data=t)
        nisa.dma_copy(dst=out[i], src=t)
    return out


@nki.jit
def in_place(a):
    x = nl.load(a)
    nl.store(a, x + 1.0)


@nki.jit
def total(x, group):
    src = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    dst = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], group, nl.add)
    return dst


def line_of(text):
    with open(__file__, encoding="utf-8") as f:
        return next(n for n, line in enumerate(f, 1) if line.strip().startswith(text))


def said(kernel, *args, commands):
    """What the debugger printed, and what it gave."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        got = kernel.debug(*args, commands=commands)
    return out.getvalue(), got


SCRIPT = '''\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def double(a):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x,
                       op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=c, src=x)
    return c

a = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)
print("before", flush=False)
got = double.debug(a)
print("left" if got is None else "right" if np.array_equal(got, 2 * a) else "wrong")
'''

COMMANDS = '''\
break kernel.py:11
continue
print x[0]
list
next
print x[0]
who wrote x[5, 1]
back
break 13
continue
delete
log on
continue
'''

WANT = '''\
before
at T ns
  vector 0  kernel.py:11  tensor_scalar x, x, op0=mult, imm0=2.0 $moved1>=16 $vector_done++
    nisa.tensor_scalar(dst=x, data=x,
(soma) break kernel.py:11
stop 1: vector 0 (kernel.py:11)
(soma) continue
stop 1 at T ns: vector 0 (kernel.py:11)
  vector 0  kernel.py:11  tensor_scalar x, x, op0=mult, imm0=2.0 $moved1>=16 $vector_done++
    nisa.tensor_scalar(dst=x, data=x,
(soma) print x[0]
x[0] = float32[4]
    0  0 1 2 3
(soma) list
     6  @nki.jit
     7  def double(a):
     8      c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
     9      x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    10      nisa.dma_copy(dst=x, src=a)
>   11      nisa.tensor_scalar(dst=x, data=x,
    12                         op0=nl.multiply, operand0=2.0)
    13      nisa.dma_copy(dst=c, src=x)
    14      return c
    15
    16  a = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)
(soma) next
at T ns
  vector has halted
(soma) print x[0]
x[0] = float32[4]
    0  0 2 4 6
(soma) who wrote x[5, 1]
  written by vector 0  kernel.py:11  tensor_scalar x, x, op0=mult, imm0=2.0 $moved1>=16 \
$vector_done++, from T ns to T ns
(soma) back
at T ns
  vector 1  halt
(soma) break 13
stop 2: gpsimd 0 (kernel.py:13)
(soma) continue
stop 2 at T ns: gpsimd 0 (kernel.py:13)
  gpsimd 0  kernel.py:13  dma_copy c.ap([[1,512]]), x, queue=q_swdge_gpsimd $vector_done>=1
    nisa.dma_copy(dst=c, src=x)
(soma) delete
(soma) log on
(soma) continue
 T  gpsimd     1    halt
 T  gpsimd     0  kernel.py:13  dma_copy c.ap([[1,512]]), x, queue=q_swdge_gpsimd $vector_done>=1
the run has ended well at T ns
right
'''


class Debug(KernelCase):
    def script(self, folder):
        with open(os.path.join(folder, "kernel.py"), "w", encoding="utf-8") as f:
            f.write(SCRIPT)
        environment = dict(os.environ, PYTHONPATH=PACKAGES, PYTHONDONTWRITEBYTECODE="1",
                           TERM="dumb")
        return [sys.executable, "kernel.py"], environment

    def test_a_world_in_the_debugger(self):
        w = soma.world(ranks=2)
        x, group = data(2, 4, 8), ReplicaGroup([[0, 1]])
        arguments = [dict(x=a, group=group) for a in x]
        plain = w.run(total, arguments)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            r = w.debug(total, arguments, commands="tbreak rank 1 cc0:2\ncontinue\ninfo ranks\n"
                        "back\nrank 0\ncontinue\n")
            left = w.debug(total, arguments, commands="until 2us\nquit\n")
        np.testing.assert_array_equal(r[1].result, x.sum(0))
        self.assertEqual((r.hash, r.time_ns, left), (plain.hash, plain.time_ns, None))
        said = out.getvalue()
        self.assertRegex(said, r"stop 1 at [0-9.]+ ns: rank 1 cc0 2 \(\S*test_debug.py:\d+\)")
        self.assertRegex(said, r"\n\* rank 1  .*cc0 \S*test_debug.py:\d+")
        self.assertRegex(said, r"\nthe world has ended well at ")
        self.assertEqual(w.run(total, arguments).hash, plain.hash)
        with self.assertRaisesRegex(SomaError, "recorded cannot go back"):
            soma.world(ranks=2, record=True).debug(total, arguments, commands="quit")
        with contextlib.redirect_stdout(io.StringIO()):
            checked = soma.world(ranks=2, checks="race").debug(
                total, arguments, commands="until 2us\nback\ncontinue\n")
        self.assertEqual((checked.time_ns, checked.findings), (plain.time_ns, []))

    def test_a_transcript_over_a_pipe(self):
        with tempfile.TemporaryDirectory() as folder:
            command, environment = self.script(folder)
            done = subprocess.run(command, cwd=folder, env=environment, input=COMMANDS, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.assertEqual(done.stderr, "")
        got = re.sub(r"\d+(\.\d+)? ns", "T ns", done.stdout)
        got = re.sub(r"(?m)^ *\d+\.\d{3} ", " T ", got)
        self.assertEqual(got, WANT)

    def test_in_a_terminal(self):
        with tempfile.TemporaryDirectory() as folder:
            command, environment = self.script(folder)
            outer, inner = pty.openpty()
            with subprocess.Popen(command, cwd=folder, env=environment, stdin=inner, stdout=inner,
                                  stderr=inner) as process:
                os.close(inner)
                shown = b""
                for line in ("tbreak 11", "continue", "print x[1]", "quit"):
                    shown += self.until(outer, b"(soma) ")
                    os.write(outer, line.encode() + b"\n")
                shown += self.until(outer, b"left")
                process.wait(60)
            os.close(outer)
        text = shown.decode()
        self.assertIn("stop 1 at", text)
        self.assertIn("nisa.tensor_scalar(dst=x, data=x,", text)
        self.assertRegex(text, r"x\[1\] = float32\[4\]\r\n    0  4 5 6 7")

    def until(self, file, text):
        got = b""
        while text not in got:
            part = os.read(file, 4096)
            self.assertTrue(part, got)
            got += part
        return got

    def test_a_loop_that_is_unrolled_stops_in_each_round(self):
        a = data(2, 128, 8)
        line = line_of("nisa.tensor_scalar(dst=x")
        text, got = said(scaled, a, commands="break test_debug.py:%d\ncontinue\ncontinue\n"
                         "info engines\ncontinue\n" % line)
        self.same(got, 2 * a)
        self.assertEqual(len(re.findall(r"(?m)^stop 1 at .*test_debug\.py:%d" % line, text)), 2)
        self.assertIn("test_debug.py:%d" % line_of("nisa.dma_copy(dst=c[i]"), text)
        self.assertIn("    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)", text)

    def test_a_list_where_the_code_has_no_line(self):
        a = data(2, 128, 8)
        text, _ = said(scaled, a, commands="focus scalar\nuntil 1000us\nlist\n")
        self.assertIn("comes from no line of the source: name a line, as in list 12", text)

    def test_two_cores(self):
        x = data(4, 128, 8) + 3
        line = line_of("nisa.reciprocal(dst=t")
        text, got = said(rows[2], x, commands="break core 1 %d\ncontinue\nprint t[0, :2]\ncore 0\n"
                         "delete\ncontinue\nwho wrote out[3]\n" % line)
        self.same(got, 1 / x)
        self.assertRegex(text, r"stop 1 at .* ns: core 1 vector 0 \(.*test_debug\.py:%d\)" % line)
        self.assertIn("core 1 t[0, :2] = float32[2]\n    0  %.6g" % x[1, 0, 0], text)
        self.assertRegex(text, r"written by core 1 \w+ 1 ")

    def test_what_is_written_is_written_back_only_at_the_end(self):
        a = data(128, 8)
        before = a.copy()
        self.assertIsNone(said(in_place, a, commands="step\nquit\n")[1])
        self.assertEqual(a.tobytes(), before.tobytes())
        said(in_place, a, commands="continue\n")
        self.same(a, before + 1)

    def test_a_fault_is_shown_and_gives_none(self):
        @nki.jit
        def outside(a, index):
            c = nl.ndarray((128, 4), dtype=a.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((128, 4), dtype=a.dtype, buffer=nl.sbuf)
            at = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
            nisa.dma_copy(dst=at, src=index)
            r = nisa.register_alloc()
            nisa.register_load(r, at)
            nisa.dma_copy(dst=t, src=a.ap(pattern=[[4, 128], [1, 4]], scalar_offset=r,
                                          indirect_dim=0))
            nisa.dma_copy(dst=c, src=t)
            return c
        a, index = data(256, 4), np.full((1, 1), 500, np.int32)
        text, got = said(outside, a, index, commands="continue\nback\ninfo engines\n")
        self.assertIsNone(got)
        self.assertIn("fault", text)
        self.assertIn("back goes to before it", text)

    def test_the_log_has_the_kernels_lines(self):
        a, out = data(2, 128, 8), io.StringIO()
        self.same(scaled.log(a, file=out), 2 * a)
        line = line_of("nisa.tensor_scalar(dst=x")
        found = [text for text in out.getvalue().splitlines()
                 if "test_debug.py:%d  tensor_scalar" % line in text]
        self.assertEqual(len(found), 2)
        low, high = (float(n) for n in re.search(r"min (\S+) max (\S+) NaN 0", found[0]).groups())
        self.assertAlmostEqual(low, 2 * a[0].min(), 4)
        self.assertAlmostEqual(high, 2 * a[0].max(), 4)
        out = io.StringIO()
        rows[2].log(data(4, 128, 8) + 3, file=out)
        self.assertRegex(out.getvalue(), r"core 1 vector +0 ")

    def test_an_error_of_the_logs_file_is_raised(self):
        class Full:
            def write(self, text):
                raise OSError("no room")
        with self.assertRaisesRegex(OSError, "no room"):
            scaled.log(data(2, 128, 8), file=Full())
        self.assertEqual(scaled(data(2, 128, 8)).shape, (2, 128, 8))

    def test_programs_without_nki(self):
        text = textwrap.dedent("""\
            target trn2
            y tensor float32[128, 4], output
            t tile sbuf float32[128, 4]
            done sem
            q queue dge=hwdge
            section vector
                    memset t, 3.0  $done++
                    halt
            section sync
                    dma_copy y, t, queue=q  $done>=1
                    halt
            """)
        machine, lines = soma.Machine("trn2"), []
        program = machine.assemble(text, "fill.s")
        with contextlib.redirect_stdout(io.StringIO()):
            run = machine.debug(program, commands="until 100\ncontinue\n")
        self.assertTrue((run.out["y"] == 3).all())
        self.assertEqual(run.time_ns, machine.run(program, log=lines.append).time_ns)
        self.assertIn("fill.s:7  memset t", "\n".join(lines))
        with self.assertRaisesRegex(TypeError, "commands=7"):
            machine.debug(program, commands=7)
        with self.assertRaisesRegex(soma.SomaError, "recorded"):
            soma.Machine("trn2", record=True).debug(program)

    def test_without_the_command(self):
        from soma import debug
        kept = debug.lib
        try:
            debug.lib = type("library", (), {"_name": "/nowhere/libsoma.so"})
            path, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
            with self.assertRaisesRegex(soma.SomaError, "make install"):
                scaled.debug(data(2, 128, 8), commands="")
        finally:
            debug.lib, os.environ["PATH"] = kept, path


if __name__ == "__main__":
    unittest.main()
