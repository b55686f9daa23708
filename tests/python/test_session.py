"""Sessions: all kernel calls of a part of a script on one timeline."""
import contextlib
import gzip
import html
import io
import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np

import nki
import nki.language as nl
import soma
from soma import record

X = np.ones((128, 512), np.float32)


@nki.jit
def twice(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x) * 2)
    return y


@nki.jit
def root(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.sqrt(nl.load(x)))
    return y


class Sessions(unittest.TestCase):
    def test_calls_follow_one_another_with_copies_and_launches(self):
        with soma.session() as s:
            y = twice(X)
            line = _line()
            root(y)
        twice(X)
        self.assertEqual([c.kernel for c in s.calls], ["twice", "root"])
        self.assertEqual([c.place for c in s.calls], [self.place(line - 1), self.place(line + 1)])
        first, second = s.calls
        self.assertEqual(first.time_us, twice.time(X))
        self.assertEqual(first.launch_us, 10)
        # 2 us and 16 bytes a nanosecond, each way
        for took in (first.copy_in_us, first.copy_out_us):
            self.assertAlmostEqual(took, 2 + X.nbytes / 16e3, 6)
        self.assertEqual((first.start_us, second.start_us), (0, first.end_us))
        self.assertEqual((first.bytes_in, first.bytes_out), (X.nbytes, X.nbytes))
        self.assertEqual(s.time_us, second.end_us)
        self.assertAlmostEqual(sum(s.totals().values()), s.time_us, 9)

    def test_tensors_on_a_device_are_not_copied(self):
        dev = soma.device("neuron:7")
        with soma.session() as s:
            x = dev.array(X)
            twice(root(x)).numpy()
        dev.close()
        self.assertEqual([e.kernel for e in s.entries], [None, "root", "twice", None])
        self.assertEqual([e.copy_in_us + e.copy_out_us for e in s.calls], [0, 0])
        into, out = s.entries[0], s.entries[-1]
        self.assertAlmostEqual(into.copy_in_us, 2 + X.nbytes / 16e3, 6)
        self.assertEqual((into.bytes_in, out.bytes_out), (X.nbytes, X.nbytes))

    def test_two_cores_launch_for_longer(self):
        with soma.session() as s:
            twice[2](X)
        self.assertEqual(s.calls[0].launch_us, 28)

    def test_text(self):
        with soma.session() as s:
            for _ in range(3):
                twice(X)
            root(X)
        text = str(s)
        first = text.splitlines()[0]
        self.assertRegex(first, r"^4 kernel calls, \d+\.\d us: kernels .* launches 40.00 us, ")
        self.assertEqual(repr(s), "<session: %s>" % first)
        rows = re.findall(r"^(\w+) *\|(.*)\| +([\d.]+) %$", s.timeline(60), re.M)
        self.assertEqual([r[0] for r in rows], ["copies", "launches", "twice", "root"])
        self.assertEqual({len(r[1]) for r in rows}, {60 - 8 - 11})
        self.assertAlmostEqual(sum(float(r[2]) for r in rows), 100, delta=0.3)
        self.assertIn(s.timeline(), text)
        self.assertRegex(text, r"\n +[\d.]+ % +[\d.]+ us +3 x twice\n")
        self.assertTrue(s._repr_html_().startswith("<svg"))
        self.assertEqual(list(s.table()["kernel"]), ["twice"] * 3 + ["root"])

    def test_what_checks_copy_is_not_there(self):
        x = soma.device().array(X)
        with soma.session() as s:
            self.assertEqual(twice.check(x), [])
        self.assertEqual(s.entries, [])

    def test_one_in_another_and_an_empty_one(self):
        with soma.session() as outer:
            twice(X)
            with soma.session() as inner:
                root(X)
        self.assertEqual((len(outer.calls), len(inner.calls)), (2, 1))
        self.assertEqual(inner.calls[0].start_us, 0)
        self.assertEqual(str(soma.session()).split(":")[0], "0 kernel calls, 0 ns")
        with self.assertRaises(KeyError):
            with soma.session() as s:
                raise KeyError
        twice(X)
        self.assertEqual(s.calls, [])

    def place(self, line):
        return "%s:%d" % (record.shown(__file__), line)


class Page(unittest.TestCase):
    def test_each_kernel_opens_into_its_own(self):
        with soma.session() as s:
            for _ in range(3):
                twice(X)
            (soma.device().array(X) + 1).numpy()
        page = s.page(title="a <model>")
        self.assertIn("<h1>a &lt;model&gt;</h1>", page)
        opened = re.findall(r"<summary>([^<]*)</summary><iframe srcdoc=\"([^\"]*)\"", page)
        self.assertEqual([re.sub("[^ ]*/", "", title).split(":")[0] for title, _ in opened],
                         ["twice, test_session.py", "add, test_session.py"])
        for name, (_, text) in zip(("twice", "add"), opened):
            self.assertTrue('"title":"%s"' % name in html.unescape(text), name)
        picture = xml.etree.ElementTree.fromstring(s.svg())
        texts = [t.text for t in picture.iter() if t.tag.endswith("text")]
        self.assertEqual(texts[::2][:4], ["copies", "launches", "twice", "add"])
        self.assertAlmostEqual(sum(float(t[:-2]) for t in texts if t.endswith(" %")), 100,
                               delta=0.3)
        with tempfile.TemporaryDirectory() as folder:
            s.page(os.path.join(folder, "page.html.gz"))
            with gzip.open(os.path.join(folder, "page.html.gz"), "rt") as f:
                self.assertEqual(f.read().count("<iframe"), 2)


class Worlds(unittest.TestCase):
    def test_runs_of_worlds(self):
        for record, pages in ((False, 1), (True, 2)):
            with soma.session() as s:
                run = soma.world(ranks=2, record=record).run(twice, {"x": X})
                twice(X)
            world, alone = s.calls
            self.assertEqual((world.kernel, alone.kernel), ("twice, 2 ranks", "twice"))
            self.assertRegex(world.place, r"test_session.py:\d+$")
            self.assertEqual(world.time_us, run.time_us)
            self.assertEqual((world.bytes_in, world.bytes_out), (2 * X.nbytes, 2 * X.nbytes))
            self.assertAlmostEqual(world.copy_in_us, alone.copy_in_us)
            self.assertEqual(alone.start_us, world.end_us)
            self.assertRegex(str(s), r"1 x twice, 2 ranks")
            page = s.page()
            self.assertEqual(page.count("<iframe"), pages)
            self.assertEqual('"title":"%s"' % "rank 0 of twice, 2 ranks" in html.unescape(page),
                             record)


class Manual(unittest.TestCase):
    def test_its_example_runs(self):
        with open("python/README.md") as f:
            code = f.read().split("<!-- example: session -->")[1].split("```")[1]
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(code[len("python\n"):], {"a": X, "add": lambda a, b: twice(a)})
        self.assertTrue(told.getvalue().startswith("3 kernel calls, "))
        self.assertIn("{'kernels': ", told.getvalue())


def _line():
    return sys._getframe(1).f_lineno
