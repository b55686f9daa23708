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

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [COMMAND, "--dap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
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


class Dap(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.scratch.name, "kernel.py")
        with open(self.path, "w") as f:
            f.write(SCRIPT)
        self.client = Client(self.scratch.name)
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
        frame, = self.client.body("stackTrace", threadId=at["threadId"])["stackFrames"]
        self.assertEqual((frame["source"]["path"], frame["line"]), (self.path, line), frame)
        return at["threadId"]

    def variables(self, thread, scope):
        scopes = {s["name"]: s["variablesReference"]
                  for s in self.client.body("scopes", frameId=thread)["scopes"]}
        return {v["name"]: v["value"] for v in self.client.body(
            "variables", variablesReference=scopes[scope])["variables"]}

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
        result = self.client.body("evaluate", expression="t[0, :3] + 1", frameId=thread)["result"]
        self.assertEqual(result, "float32[3] [4. 4. 4.]")
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
        self.assertIn("no kernel stands", self.client.ask("next", threadId=thread)["message"])
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
        self.assertIn("no kernel stands", self.client.ask("continue", threadId=1)["message"])
        with open(self.path, "a") as f:
            f.write("raise ValueError('of the script')\n")
        self.start()
        self.assertEqual(self.client.event("exited")["exitCode"], 1)
        self.assertIn("ValueError: of the script", self.client.output)


if __name__ == "__main__":
    unittest.main()
