"""Lines of the user's own source: in files, in cells of a notebook, in all that tells of a run."""
import contextlib
import io
import json
import linecache
import os
import re
import sys
import tempfile
import types
import unittest

from helper import KernelCase, data

SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl
@nki.jit
def kernel(a, wrong=False):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.activation(dst=x, op=nl.exp, data=x)
    if wrong:
        nisa.activation(dst=x[:, 0:5], op=nl.exp, data=x[:, 0:6])
    nisa.dma_copy(dst=out, src=x)
    nisa.dma_copy(dst=out[0:1], src=a[0:1])
    nisa.dma_copy(dst=out[0:1], src=x[0:1])
    return out
"""


def cell(name, source=SOURCE):
    """What a cell of this source defines; its lines are known to linecache alone."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {}
    exec(compile(source, name, "exec"), names)
    return names["kernel"]


@contextlib.contextmanager
def notebook(names):
    """A stand-in for IPython that names cells."""
    compiler = types.SimpleNamespace(
        format_code_name=lambda name: ("Cell", names[name]) if name in names else None)
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(compile=compiler)
    sys.modules["IPython"] = module
    try:
        yield
    finally:
        del sys.modules["IPython"]


class Places(KernelCase):
    def told(self, kernel, name):
        """Everything that tells of a run names lines of `name`."""
        x = data(128, 64)
        run = kernel.run(x)
        self.assertIn('%%line 9 "%s"' % name, run.source())
        self.assertIn("%s:8" % name, run.explain())
        events = json.loads(run.trace())["traceEvents"]
        self.assertIn("%s:9" % name, [e["args"]["source"] for e in events
                                      if e["name"] == "activate"])
        page = run.page()
        inside = page[page.index('{"soma"'):]
        told = json.JSONDecoder().raw_decode(inside)[0]
        self.assertEqual((told["files"], told["title"]), ([name], "kernel"))
        with self.assertRaisesRegex(ValueError, "^%s:11: activation dst: " % re.escape(name)):
            kernel(x, True)

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "own_kernel.py")
            with open(path, "w") as f:
                f.write(SOURCE)
            names = {}
            with open(path) as f:
                exec(compile(f.read(), path, "exec"), names)
            self.told(names["kernel"], path)

    def test_a_cell_of_older_ipython(self):
        self.told(cell("<ipython-input-1-0f1e2d>"), "<ipython-input-1-0f1e2d>")

    def test_a_cell_is_named_as_the_notebook_does(self):
        with notebook({"/tmp/ipykernel_77/123.py": "In[3]"}):
            self.told(cell("/tmp/ipykernel_77/123.py"), "In[3]")

    def test_the_debugger_shows_the_lines_of_a_cell(self):
        name = "/tmp/ipykernel_77/125.py"
        for shown, cells in (("<ipython-input-7-0f1e2d>", {}), ("In[5]", {name: "In[5]"})):
            with notebook(cells), contextlib.redirect_stdout(io.StringIO()) as out:
                kernel = cell(name if cells else shown)
                kernel.debug(data(128, 64), commands="break 9\ncontinue\nlist\nlist %s:4\nquit\n"
                             % shown)
            text = out.getvalue()
            self.assertIn("(%s:9)" % shown, text)
            self.assertIn("\n    nisa.activation(dst=x, op=nl.exp, data=x)\n", text)
            self.assertIn("\n>    9      nisa.activation(dst=x, op=nl.exp, data=x)\n", text)
            self.assertIn("\n     4  @nki.jit\n", text)

    def test_the_page_has_the_lines_of_a_cell(self):
        name = "/tmp/ipykernel_77/126.py"
        with notebook({name: "In[6]"}):
            page = cell(name).run(data(128, 64)).page()
        self.assertIn("def kernel(a, wrong=False):", page)

    def test_a_finding(self):
        with notebook({"/tmp/ipykernel_77/124.py": "In[4]"}):
            source = SOURCE.replace("dst=out, src=x", "dst=out[1:2], src=x[1:2]")
            kernel = cell("/tmp/ipykernel_77/124.py", source)
            found = kernel.check(data(128, 64))
        self.assertEqual([f.check for f in found], ["output"])
        self.assertTrue(found[0].text.startswith("In[4]:"), found[0].text)


if __name__ == "__main__":
    unittest.main()
