"""soma-nki --dap: a client of the Debug Adapter Protocol over a pipe, as editors are."""
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
SCRIPT = """import numpy as np
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        t = nl.ndarray((64, 32), a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=a[i * 64:i * 64 + 64])
        nisa.activation(dst=t, op=nl.square, data=t)
        nisa.dma_copy(dst=out[i * 64:i * 64 + 64], src=t)
    return out

x = np.full((128, 32), 3, np.float32)
print("before")
y = kernel(x)
print("sum", y.sum())
"""

PROGRAM = """        target  trn2
x       tensor  float32[128, 512], input
y       tensor  float32[128, 512], output
t       tile    sbuf float32[128, 512]
loaded  sem
squared sem
q       queue   dge=hwdge
section sync
        dma_copy  t, x, queue=q                 $loaded
        dma_copy  y, t, queue=q  $squared>=1
        halt
section scalar
        activate  t, t, fn=square  $loaded>=16  $squared++
        halt
"""
LONG = """        target  trn2
section sync
        mov     r1, 1
again:  add     r1, r1, 1
        jmp     again
"""


class Client:
    """An editor."""

    def __init__(self, folder, command=COMMAND):
        self.process = subprocess.Popen(
            [command, "--dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
            env=dict(os.environ, SOMA_PYTHON=sys.executable, PYTHONDONTWRITEBYTECODE="1"))
        self.number, self.events, self.answers = 0, queue.Queue(), queue.Queue()
        self.output = ""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        stream = self.process.stdout
        while True:
            header = stream.readline()
            if not header:
                break
            stream.readline()
            message = json.loads(stream.read(int(header.split(b":")[1])))
            if message["type"] == "response":
                self.answers.put(message)
            elif message["event"] == "output":
                self.output += message["body"]["output"]
            else:
                self.events.put(message)

    def ask(self, command, **arguments):
        """The answer to a request."""
        self.number += 1
        data = json.dumps({"seq": self.number, "type": "request", "command": command,
                           "arguments": arguments}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()
        answer = self.answers.get(timeout=60)
        assert answer["request_seq"] == self.number and answer["command"] == command, answer
        return answer

    def body(self, command, **arguments):
        answer = self.ask(command, **arguments)
        assert answer["success"], answer
        return answer["body"]

    def event(self, name):
        """The next event, which is of that name."""
        got = self.events.get(timeout=60)
        assert got["event"] == name, (got, self.output)
        return got["body"]


class Base(unittest.TestCase):
    """A session with a script."""

    command = COMMAND

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.scratch.name, "kernel.py")
        with open(self.path, "w") as f:
            f.write(SCRIPT)
        self.client = Client(self.scratch.name, self.command)
        self.assertTrue(self.client.body("initialize", adapterID="soma")["supportsStepBack"])
        self.client.event("initialized")

    def tearDown(self):
        self.client.process.kill()
        self.client.process.wait()
        self.client.process.stdin.close()
        self.client.process.stdout.close()
        self.scratch.cleanup()

    def start(self, *breakpoints, **more):
        self.client.body("launch", program=self.path, **more)
        found = self.client.body("setBreakpoints", source={"path": self.path},
                                 breakpoints=list(breakpoints))
        self.assertEqual([b["verified"] for b in found["breakpoints"]], [True] * len(breakpoints))
        self.client.body("configurationDone")

    def stopped(self, reason, line):
        """The thread that stands there."""
        at = self.client.event("stopped")
        self.assertEqual(at["reason"], reason)
        frame = self.client.body("stackTrace", threadId=at["threadId"])["stackFrames"][0]
        self.assertEqual((frame["source"]["path"], frame["line"]), (self.path, line), frame)
        return at["threadId"]

    def frame(self, thread, level=0):
        return self.client.body("stackTrace", threadId=thread)["stackFrames"][level]["id"]

    def held(self, thread, scope, level=0):
        """The variables of a scope by name."""
        scopes = {s["name"]: s["variablesReference"] for s in self.client.body(
            "scopes", frameId=self.frame(thread, level))["scopes"]}
        return {v["name"]: v for v in self.client.body(
            "variables", variablesReference=scopes[scope])["variables"]}

    def variables(self, thread, scope, level=0):
        return {n: v["value"] for n, v in self.held(thread, scope, level).items()}

    def value(self, text, thread, level=0):
        return self.client.body("evaluate", expression=text,
                                frameId=self.frame(thread, level))["result"]


class Dap(Base):
    def ends(self):
        self.assertEqual(self.client.event("exited")["exitCode"], 0, self.client.output)
        self.client.event("terminated")
        self.assertEqual(self.client.output, "before\nsum %s\n" % (9.0 * 128 * 32))
        self.client.body("disconnect")
        self.assertEqual(self.client.process.wait(timeout=60), 0)

    def test_lines_of_a_kernel(self):
        self.start({"line": 10})
        thread = self.stopped("breakpoint", 10)
        names = {t["id"]: t["name"] for t in self.client.body("threads")["threads"]}
        self.assertIn(names[thread], ("scalar", "vector"))
        shown = self.variables(thread, "Operands")
        self.assertEqual(list(shown), ["t"])
        self.assertRegex(shown["t"], r"^float32\[64, 32\] \[\[3. 3. ... 3. 3.\]")
        self.assertIn("a", self.variables(thread, "Tensors"))
        self.assertTrue(any(n.startswith("$") for n in self.variables(thread, "Semaphores")))
        self.assertEqual(self.value("t[0, :3] + 1", thread), "float32[3] [4. 4. 4.]")
        self.assertRegex(self.client.ask("evaluate", expression="z")["message"], "'z' is not")
        self.client.body("continue", threadId=thread)
        self.stopped("breakpoint", 10)  # of the second iteration
        self.client.body("continue", threadId=thread)
        self.ends()

    def test_steps_and_back(self):
        self.start({"line": 10})
        thread = self.stopped("breakpoint", 10)
        before = self.variables(thread, "Operands")
        self.client.body("next", threadId=thread)
        self.assertEqual(self.stopped("step", 10), thread)  # the next iteration's
        self.client.body("stepBack", threadId=thread)
        self.assertEqual(self.stopped("step", 10), thread)
        self.assertEqual(self.variables(thread, "Operands"), before)
        self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[])
        self.client.body("continue", threadId=thread)
        self.assertIn("nothing stands", self.client.ask("next", threadId=thread)["message"])
        self.ends()

    def test_entry_and_conditions(self):
        self.start({"line": 10, "condition": "t_2.any()"}, stopOnEntry=True)
        thread = self.client.event("stopped")["threadId"]
        self.assertTrue(self.client.body("threads")["threads"])
        self.client.body("continue", threadId=thread)
        thread = self.stopped("breakpoint", 10)
        self.assertEqual(self.client.body("evaluate", expression="float(t_2.max())")["result"],
                         "3.0")
        self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[])
        self.client.body("continue", threadId=thread)
        self.ends()

    def test_a_program_in_assembly(self):
        self.path = os.path.join(self.scratch.name, "square.s")
        with open(self.path, "w") as f:
            f.write(PROGRAM)
        np.save(os.path.join(self.scratch.name, "x.npy"), np.full((128, 512), 3, np.float32))
        self.start({"line": 13}, inputs={"x": "x.npy"}, target="trn2, scalar_clock_ghz=2.4")
        thread = self.stopped("breakpoint", 13)
        self.assertRegex(self.variables(thread, "Operands")["t"], r"^float32\[128, 512\] \[\[3. 3.")
        self.client.body("next", threadId=thread)
        self.stopped("step", 14)
        self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("exited")["exitCode"], 0, self.client.output)
        self.assertIn("machine       hypothetical trn2, scalar_clock_ghz=2.4", self.client.output)

    def test_variables_of_python_in_a_kernel(self):
        """What `i` was when the line was recorded: the tile among the operands says which time."""
        self.start({"line": 10}, {"line": 11, "condition": "i == 1"})
        thread = self.stopped("breakpoint", 10)
        shown = self.variables(thread, "Python")
        self.assertEqual((shown["i"], shown["t"]), ("0", "float32[64, 32]"))
        self.client.body("continue", threadId=thread)
        thread = self.stopped("breakpoint", 10)
        self.assertEqual(self.value("i + 1", thread), "2")
        self.client.body("continue", threadId=thread)
        thread = self.stopped("breakpoint", 11)
        self.assertEqual(self.value("i", thread), "1")
        self.client.body("continue", threadId=thread)
        self.ends()

    def test_variables_that_may_be_either(self):
        """An instruction whose operands do not say in which iteration it was recorded."""
        with open(self.path, "w") as f:
            f.write(SCRIPT.replace("        t = nl", "        t = t if i else nl"))
        self.start({"line": 10})
        thread = self.stopped("breakpoint", 10)
        self.assertEqual(self.variables(thread, "Python")["i"], "one of 0, 1")
        answer = self.client.ask("evaluate", expression="i", frameId=self.frame(thread))
        self.assertIn("i was one of 0, 1", answer["message"])
        self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[])
        self.client.body("continue", threadId=thread)
        self.ends()

    def test_lines_of_the_script(self):
        with open(self.path, "a") as f:
            f.write("""class Pair:
    def __init__(self, a):
        self.a, self.b = a, [a, a + 1]

def twice(n):
    p = Pair(n)
    return p.a * 2

for n in range(3):
    m = twice(n)
last = n
""")
        found = self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[
            {"line": 2}, {"line": 3}])["breakpoints"]
        self.assertEqual([b["verified"] for b in found], [True, False])
        self.start({"line": 24, "condition": "n == 1"})
        thread = self.stopped("breakpoint", 24)
        at, whole = self.client.body("stackTrace", threadId=thread)["stackFrames"]
        self.assertEqual((at["name"], whole["name"], whole["line"]), ("twice", "<module>", 27))
        self.assertEqual(list(self.variables(thread, "Locals")), ["n", "p"])
        inner = self.client.body("variables", variablesReference=self.held(thread, "Locals")["p"][
            "variablesReference"])["variables"]
        self.assertEqual([(v["name"], v["value"]) for v in inner], [("a", "1"), ("b", "[1, 2]")])
        self.assertEqual(self.value("[p.a + k for k in range(2)]", thread), "[1, 2]")
        self.assertEqual(self.value("y.sum() + n", thread, 1), "36865.0")
        self.assertIn("does not go back", self.client.ask("stepBack", threadId=thread)["message"])
        self.client.body("stepOut", threadId=thread)
        self.stopped("step", 26)
        for move, line in (("next", 27), ("stepIn", 23), ("stepIn", 20), ("stepOut", 24),
                           ("stepOut", 26)):
            self.client.body(move, threadId=thread)
            self.stopped("step", line)
        self.client.body("continue", threadId=thread)
        self.client.event("exited")

    def test_from_the_script_into_a_kernel(self):
        self.start({"line": 16})
        thread = self.stopped("breakpoint", 16)
        self.client.body("stepIn", threadId=thread)
        engine = self.client.event("stopped")
        self.assertEqual((engine["reason"], engine["threadId"] != thread), ("entry", True))
        names = {t["id"]: t["name"] for t in self.client.body("threads")["threads"]}
        self.assertEqual(names[thread], "script")
        frame = self.client.body("stackTrace", threadId=thread)["stackFrames"][0]
        self.assertEqual(frame["line"], 16)
        self.assertEqual(self.value("x.shape", thread), "(128, 32)")
        self.client.body("stepOut", threadId=engine["threadId"])
        thread = self.stopped("step", 17)
        self.assertEqual(self.value("float(y[0, 0])", thread), "9.0")
        self.assertEqual(self.value("float(kernel(y)[0, 0])", thread), "81.0")  # without a stop
        self.client.body("next", threadId=thread)
        self.ends()

    def test_lines_of_a_kernel_while_it_is_recorded(self):
        self.start({"line": 8}, recording=True)
        thread = self.stopped("breakpoint", 8)
        self.assertEqual(self.value("(i, a.shape)", thread), "(0, (128, 32))")
        self.client.body("continue", threadId=thread)
        thread = self.stopped("breakpoint", 8)
        self.assertEqual(self.value("i", thread), "1")
        self.client.body("continue", threadId=thread)
        self.ends()

    def test_writes(self):
        """Stops at each write into a tile (data breakpoints)."""
        self.start(stopOnEntry=True)
        thread = self.client.event("stopped")["threadId"]
        found = self.client.body("dataBreakpointInfo", name="t_2", frameId=self.frame(thread))
        self.assertEqual(found["accessTypes"], ["write"])
        self.assertIsNone(self.client.body("dataBreakpointInfo", name="u")["dataId"])
        self.client.body("setDataBreakpoints", breakpoints=[
            {"dataId": found["dataId"], "condition": "t_2[0, 0] > 3"}])
        self.client.body("continue", threadId=thread)
        thread = self.client.event("stopped")
        self.assertEqual(thread["reason"], "data breakpoint")
        self.assertEqual(self.value("t_2[0, :2]", thread["threadId"]), "float32[2] [9. 9.]")
        self.assertRegex(self.client.output, r"t_2 is written by kernel.py:10: (scalar|vector)")
        self.client.output = "before\n"
        self.client.body("setDataBreakpoints", breakpoints=[])
        self.client.body("continue", threadId=thread["threadId"])
        self.ends()

    def test_pause_of_a_script(self):
        with open(self.path, "w") as f:
            f.write("import time\nn = 0\nwhile n >= 0:\n    n += 1\n")
        self.start()
        while not self.client.ask("pause", threadId=1)["success"]:
            time.sleep(0.01)
        at = self.client.event("stopped")
        self.assertEqual(at["reason"], "pause")
        self.assertRegex(self.value("n", at["threadId"]), r"^\d+$")

    def test_pause(self):
        """A loop that takes minutes stands when it is asked to."""
        self.path = os.path.join(self.scratch.name, "long.s")
        with open(self.path, "w") as f:
            f.write(LONG)
        self.assertIn("nothing to pause", self.client.ask("pause", threadId=1)["message"])
        self.start({"line": 3})
        thread = self.stopped("breakpoint", 3)
        self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[])
        self.client.body("continue", threadId=thread)
        while not self.client.ask("pause", threadId=thread)["success"]:
            time.sleep(0.01)
        self.assertEqual(self.client.event("stopped")["reason"], "pause")
        self.assertNotEqual(self.variables(thread, "Registers").get("r1", "0"), "0")

    def test_errors(self):
        self.assertFalse(self.client.ask("launch")["success"])
        self.assertIn("no request gotoTargets", self.client.ask("gotoTargets")["message"])
        self.assertIn("nothing stands", self.client.ask("continue", threadId=1)["message"])
        with open(self.path, "a") as f:
            f.write("raise ValueError('of the script')\n")
        self.start()
        self.assertEqual(self.client.event("exited")["exitCode"], 1)
        self.assertIn("ValueError: of the script", self.client.output)


LUA = """local soma = require "soma"
local function pair(n) return {n, name = "p" .. n, inner = {n + 1}} end
local n = 0
for i = 1, 3 do
  local p = pair(i)
  n = n + p[1]
end
local square = soma.jit(function(k, x)
  local y = k:output("y", "float32", {128, 64})
  for i = 0, 1 do
    local t = k:tile("float32", {64, 64})
    k.any.dma_copy(t, x[{{i * 64, 64}}])
    k.vector.tensor_tensor(t, t, t, {op = "mult"})
    k.any.dma_copy(y[{{i * 64, 64}}], t)
  end
  return y
end)
local x = soma.full({128, 64}, 3, "float32")
local y = square(x)
print("sum", n, y:get(127, 63), ...)
os.exit(#arg)
"""
WORLD = """local soma = require "soma"
local prog = soma.assemble([=[
        target  trn2
x       tensor  float32[128, 16], input
y       tensor  float32[128, 16], output
q       queue   dge=hwdge
done    sem
tp      group   [[0, 1]]
section gpsimd
        all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
        halt $done>=1
]=], {name = "sum.s"})
local w = soma.world {ranks = 2}
local runs = w:run(prog, function(rank) return {x = soma.full({128, 16}, rank + 1, "float32")} end)
print("sum", runs[0].out.y:get(0, 0))
"""


class Scripts(Base):
    """soma --dap is the same adapter; scripts of Lua."""

    command = COMMAND[:-len("-nki")]

    def script(self, text):
        self.path = os.path.join(self.scratch.name, "script.lua")
        with open(self.path, "w") as f:
            f.write(text)

    def test_lines_and_variables(self):
        self.script(LUA)
        self.start({"line": 6, "condition": "i == 2"}, args=["a", "b"])
        thread = self.stopped("breakpoint", 6)
        shown = self.held(thread, "Locals")
        self.assertEqual((shown["n"]["value"], shown["i"]["value"]), ("1", "2"))
        inner = {v["name"]: v for v in self.client.body("variables", variablesReference=shown["p"][
            "variablesReference"])["variables"]}
        self.assertEqual((inner["1"]["value"], inner["name"]["value"]), ("2", '"p2"'))
        deep = self.client.body("variables", variablesReference=inner["inner"][
            "variablesReference"])["variables"]
        self.assertEqual([(v["name"], v["value"]) for v in deep], [("1", "3")])
        self.assertEqual(self.value("n + p[1] * 10", thread), "21")
        answer = self.client.ask("evaluate", expression="n +", frameId=self.frame(thread))
        self.assertIn("unexpected symbol", answer["message"])
        self.client.body("next", threadId=thread)
        self.stopped("step", 4)
        self.client.body("next", threadId=thread)
        self.stopped("step", 5)
        self.client.body("stepIn", threadId=thread)
        thread = self.stopped("step", 2)
        frames = self.client.body("stackTrace", threadId=thread)["stackFrames"]
        self.assertEqual([(f["name"], f["line"]) for f in frames], [("pair", 2), ("main chunk", 5)])
        self.assertEqual(self.value("i", thread, 1), "3")
        self.client.body("stepOut", threadId=thread)
        self.stopped("step", 6)
        self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("exited")["exitCode"], 2, self.client.output)
        self.assertEqual(self.client.output, "sum\t6\t9.0\ta\tb\n")

    def test_runs(self):
        self.script(LUA)
        self.start({"line": 13})
        thread = self.stopped("breakpoint", 13)
        names = {t["id"]: t["name"] for t in self.client.body("threads")["threads"]}
        self.assertEqual(names[thread], "vector")
        self.assertEqual(list(self.variables(thread, "Operands")), ["t"])
        self.assertRegex(self.variables(thread, "Operands")["t"], r"^float32\[64, 64\] 3 3 3")
        self.assertIn("x", self.variables(thread, "Tensors"))
        self.assertTrue(any(n.startswith("$") for n in self.variables(thread, "Semaphores")))
        self.assertEqual(self.value("t:max() + 1", thread), "4.0")
        self.assertEqual(self.value("x.shape[1]", 1), "128")  # the script's, at line 19
        found = self.client.body("dataBreakpointInfo", name="t", frameId=self.frame(thread))
        self.client.body("next", threadId=thread)
        self.stopped("step", 13)
        self.client.body("stepBack", threadId=thread)
        self.stopped("step", 13)
        self.assertRegex(self.variables(thread, "Operands")["t"], r"^float32\[64, 64\] 3 3 3")
        self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[])
        self.client.body("setDataBreakpoints", breakpoints=[
            {"dataId": found["dataId"], "condition": "t:max() == 9"}])
        self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("stopped")["reason"], "data breakpoint")
        self.assertRegex(self.client.output, r"t is written by vector \d+ .*script.lua:13")
        self.client.body("setDataBreakpoints", breakpoints=[])
        self.client.body("setBreakpoints", source={"path": self.path}, breakpoints=[
            {"line": 13, "condition": "t_2:max() == 3"}])
        self.client.body("continue", threadId=thread)
        thread = self.stopped("breakpoint", 13)
        self.client.body("stepOut", threadId=thread)
        thread = self.stopped("step", 20)
        self.assertEqual(self.value("y", thread), "float32[128, 64] 9 9 9 9 9 9 9 9 ... 9")
        self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("exited")["exitCode"], 0, self.client.output)

    def test_into_a_run(self):
        self.script(LUA)
        self.start({"line": 19})
        thread = self.stopped("breakpoint", 19)
        self.client.body("stepIn", threadId=thread)
        thread = self.stopped("step", 9)  # the kernel's function, which soma.jit calls
        self.client.body("stepOut", threadId=thread)
        self.assertEqual(self.client.event("stopped")["reason"], "step")
        self.client.body("continue", threadId=thread)
        self.client.event("exited")

    def test_a_world(self):
        self.script(WORLD)
        self.start(stopOnEntry=True)
        thread = self.client.event("stopped")["threadId"]
        names = {t["name"]: t["id"] for t in self.client.body("threads")["threads"]}
        self.assertIn("rank 1 gpsimd", names)
        other = names["rank 1 gpsimd"]
        self.assertEqual(self.variables(other, "Tensors")["x"][:26], "float32[128, 16] 2 2 2 2 2")
        found = self.client.body("dataBreakpointInfo", name="y", frameId=self.frame(other))
        self.client.body("setDataBreakpoints", breakpoints=[{"dataId": found["dataId"]}])
        self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("stopped")["reason"], "data breakpoint")
        self.assertIn("y is written by rank ", self.client.output)
        self.client.body("setDataBreakpoints", breakpoints=[])
        self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("exited")["exitCode"], 0, self.client.output)
        self.assertIn("sum\t3.0", self.client.output)

    def test_pause(self):
        self.script("local n = 0\nwhile true do n = n + 1 end\n")
        self.start()
        while not self.client.ask("pause", threadId=1)["success"]:
            time.sleep(0.01)
        self.assertEqual(self.client.event("stopped")["reason"], "pause")
        self.assertRegex(self.value("n", 1), r"^\d+$")

    def test_errors(self):
        self.script("error 'of the script'\n")
        self.start()
        self.assertEqual(self.client.event("exited")["exitCode"], 1)
        self.assertIn("script.lua:1: of the script", self.client.output)

    def test_what_cannot_be_run(self):
        for name, text, words in (("none.lua", None, "No such file"),
                                  ("bad.s", "section sync\n  frob\n", "bad.s:2"),
                                  ("bad.lua", "x = = 1\n", "bad.lua:1"),
                                  ("bad.py", "x = = 1\n", "bad.py, line 1"),
                                  ("x.sbc", "no program", "program")):
            with self.subTest(name):
                client = Client(self.scratch.name, self.command)
                path = os.path.join(self.scratch.name, name)
                if text:
                    with open(path, "w") as f:
                        f.write(text)
                client.body("initialize")
                client.event("initialized")
                client.body("launch", program=path)
                client.body("configurationDone")
                self.assertEqual(client.event("exited")["exitCode"], 1)
                self.assertIn(words, client.output)
                self.assertNotIn("dap.py", client.output)
                client.process.kill()
                client.process.wait()
                client.process.stdin.close()
                client.process.stdout.close()

    def test_stops_of_the_script_itself(self):
        """They bring the run back to the script, which goes on with it."""
        self.script("""local soma = require "soma"
local prog = soma.assemble([[
%s]], {name = "square.s", target = "trn2"})
local run = soma.core():start(prog, {x = soma.full({128, 512}, 3, "float32")})
run:until_line("square.s", 13)
print(run.ended, run.stopped[1].engine)
run:continue()
print(run.ended, run.out.y:get(0, 0))
print(pcall(soma.core().run, soma.core(), prog, {}, {nonsense = 1}))
""" % PROGRAM)
        self.start({"line": 20}, stopOnEntry=True)
        self.client.event("stopped")
        self.client.body("continue", threadId=2)
        thread = self.stopped("breakpoint", 20)
        self.client.body("continue", threadId=thread)
        self.client.event("stopped")
        self.client.body("continue", threadId=2)
        self.assertEqual(self.client.event("exited")["exitCode"], 0, self.client.output)
        self.assertRegex(self.client.output, "false\tscalar\ntrue\t9.0\nfalse\t.*unknown option")

    def test_faults(self):
        self.script("""local soma = require "soma"
local prog = soma.assemble([[
        target trn2
s       sem
section sync
        halt $s>=1
]], {name = "stuck.s"})
print(pcall(function() return soma.core():run(prog) end))
local run = soma.core():run(prog, nil, {faults = "return"})
print(run.fault.kind)
""")
        self.start(stopOnEntry=True)
        for _ in range(2):
            thread = self.client.event("stopped")["threadId"]
            self.client.body("continue", threadId=thread)
        self.assertEqual(self.client.event("exited")["exitCode"], 0, self.client.output)
        self.assertRegex(self.client.output, r"false\t.*stuck.s:4: deadlock.*\n(.*\n)*deadlock\n")


if __name__ == "__main__":
    unittest.main()
