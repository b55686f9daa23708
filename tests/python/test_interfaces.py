"""One fault, finding or error has one text, whether C, Python, Lua or a command tells it."""
import ctypes as C
import os
import subprocess
import tempfile
import unittest

import soma
from soma import lib as L

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
HEAD = "target trn2\ns sem\nq queue dge=hwdge\nx tensor float32[128, 4]\n" \
       "t tile sbuf float32[128, 4]\ni tile sbuf int32[1, 1]\n"
# What comes of a source after the head: findings, a fault, an error of a call, or diagnostics.
CASES = {
    "race": "section vector\n tensor_copy t, t\n halt\nsection gpsimd\n memset t, 1.0\n halt\n",
    "uninit": "section vector\n memset t[:, 0:2], 1.0 $s++\n tensor_copy t, t $s>=1\n halt\n",
    "deadlock": "section vector\n nop $s>=1\n halt\n",
    "fault": "section sync\n mov r1, 900\n dma_copy t[0:1], x[r1], queue=q\n halt\n",
    "limit": "section vector\nl: jmp l\n halt\n",
    "input": "a tensor float32[4], input\nsection vector\n halt\n",
    "syntax": "section vector\n nop $none>=1\n tensor_copyy t, t\n halt\n",
    "illegal": "section vector\n memset t, 1.0, 2\n halt\n",
}
LUA = """
local soma = require "soma"
for name in ("%s"):gmatch "%%w+" do
  local file = assert(io.open("%s/" .. name .. ".s"))
  local source, said = file:read "a", {}
  file:close()
  local ok, e = pcall(function()
    local p = soma.assemble(source, {name = name .. ".s"})
    local run = soma.core{checks = "all", max_instructions = 1000}:run(p, {}, {faults = "return"})
    for _, f in ipairs(run.findings) do said[#said + 1] = f.text end
    local f = run.fault
    if f and #said == 0 then
      said[1] = ("%%s:%%d: %%s\\n  %%s"):format(f.file, f.line, f.text, f.instruction)
    end
  end)
  io.write("== ", name, "\\n", ok and table.concat(said, "\\n--\\n") or e, "\\n")
end
"""


class Interfaces(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            for name, body in CASES.items():
                with open(os.path.join(folder, name + ".s"), "w") as f:
                    f.write(HEAD + body)
            script = os.path.join(folder, "all.lua")
            with open(script, "w") as f:
                f.write(LUA % (" ".join(CASES), folder))
            done = subprocess.run([os.path.join(BUILD, "soma"), script], capture_output=True,
                                  text=True)
            cls.command = {name: subprocess.run(
                [os.path.join(BUILD, "soma"), name + ".s", "--check", "all", "--max-instructions",
                 "1000"], cwd=folder, capture_output=True, text=True).stderr for name in CASES}
        cls.lua = dict(part.rstrip("\n").split("\n", 1) for part in done.stdout.split("== ")[1:])
        if done.returncode:
            raise AssertionError(done.stderr)

    def python_and_c(self, name):
        """(what Python says, what C says)."""
        m = soma.Machine("trn2", checks="all", max_instructions=1000)
        try:
            run = m.run(m.assemble(HEAD + CASES[name], name + ".s"), {})
        except soma.SomaError as error:
            return str(error), L.lib.soma_error(m.handle).decode()
        handle, f, raw = run.handle, L.Finding(), []
        for i in range(L.lib.soma_run_findings(handle)):
            L.lib.soma_run_finding(handle, i, C.byref(f))
            self.assertTrue(f.text.endswith(b"\n") and not f.text.endswith(b"\n\n"))
            raw.append(f.text.decode()[:-1])
        return "\n--\n".join(f.text for f in run.findings), "\n--\n".join(raw)

    def test_findings(self):
        for name in ("race", "uninit"):
            python, c = self.python_and_c(name)
            self.assertTrue(c.startswith("%s.s:" % name), c)
            self.assertEqual((python, self.lua[name]), (c, c))
            for one in c.split("\n--\n"):
                self.assertIn(one, self.command[name])

    def test_faults(self):
        for name in ("deadlock", "fault", "limit"):
            python, c = self.python_and_c(name)
            self.assertEqual(python, self.lua[name])
            self.assertEqual(python[:len(c)], c)  # C has the instruction in soma_fault
            self.assertTrue(c.startswith("%s.s:" % name), c)
            place, text = c.split(": ", 1)
            self.assertIn(place, self.command[name])
            self.assertIn(text, self.command[name])

    def test_errors_of_a_call(self):
        python, c = self.python_and_c("input")
        self.assertEqual(python, c)
        self.assertTrue(self.lua["input"].endswith(c), self.lua["input"])

    def test_diagnostics(self):
        for name in ("syntax", "illegal"):
            python, c = self.python_and_c(name)
            self.assertTrue(self.lua[name].endswith(python), self.lua[name])
            self.assertIn(python, self.command[name])
            place, text = c.split(": ", 1)
            self.assertEqual(python.splitlines()[0], "%s: error: %s" % (place, text))


if __name__ == "__main__":
    unittest.main()
