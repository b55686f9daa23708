"""torch's device privateuseone over Soma's HBM, also as neuron:0; skipped without torch (Debian:
python3-torch) or what its extension needs (g++, libtorch-dev)."""
import contextlib
import copy
import io
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import nki
import nki.language as nl
import soma

try:
    import torch
except ImportError:
    torch = None

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
os.environ.setdefault("SOMA_TORCH_CACHE", os.path.join(BUILD, "torch"))
WHY = ""
if torch is None:
    WHY = "torch is not installed (python3-torch)"
else:
    try:
        soma.torch.enable()
    except soma.SomaError as error:
        WHY = str(error)
        if not os.path.exists(os.path.join(os.path.dirname(torch.__file__), "include", "ATen",
                                           "EmptyTensor.h")):
            WHY = "the headers of torch are not installed (libtorch-dev)"


@nki.jit
def plus(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(y))
    return out


@nki.jit
def double(x):
    nl.store(x, nl.load(x) * 2)


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.device = soma.device("neuron:0")

    def traffic(self):
        return self.device.host_to_device, self.device.device_to_host

    def here(self, got, want, rtol=1e-5):
        self.assertEqual(got.device, torch.device("privateuseone:0"))
        torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=rtol, atol=1e-5)


@unittest.skipIf(torch is None, WHY)
class Placement(unittest.TestCase):
    """What the vendor's page on tensors in HBM says of placement, with torch_neuronx's stand-in."""

    SCRIPT = '''
import torch, torch_neuronx, soma

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 2))
    def forward(self, a, b=1.0):
        return a @ self.weight + b

picture = torch.nn.Conv2d(3, 2, 3)
traced = torch_neuronx.trace(picture, torch.rand(1, 3, 224, 224))
torch_neuronx.move_trace_to_device(traced, 0)
x = torch.rand([1, 3, 224, 224], device="neuron:0")
print("one", traced(x).device, torch.allclose(traced(x).cpu(), picture(x.cpu()), atol=1e-4))

model = Two()
traced = torch_neuronx.trace(model, (torch.rand(2, 2), torch.rand(2, 2)))
torch_neuronx.move_trace_to_device(traced, 0)
a, b = (torch.rand([2, 2], device="neuron:0") for _ in range(2))
print("two", traced(a, b).device, torch.allclose(traced(a, b).cpu(), model(a.cpu(), b.cpu())))
c = torch.rand([2, 2], device="cpu")
print("mixed", traced(a, c).device, torch.allclose(traced(a, c), model(a.cpu(), c)))

first = torch_neuronx.trace(torch.nn.Linear(256, 64), torch.rand(1, 256))
second = torch_neuronx.trace(torch.nn.Linear(64, 8), torch.rand(1, 64))
for part in first, second:
    torch_neuronx.move_trace_to_device(part, 0)
x = torch.rand([1, 256], device="neuron:0")
device = soma.device("neuron:0")
second(first(x))  # copies the constants of the programs
before = device.host_to_device, device.device_to_host
middle = first(x)
last = second(middle)
print("chain", middle.device, last.device,
      before == (device.host_to_device, device.device_to_host), device.hbm["used"] > 0)
print("alone", torch_neuronx.trace(model, torch.rand(2, 2))(a).device, model.weight.device)
try:
    torch.rand([1 << 40], device="neuron:0")
except RuntimeError as error:
    print("limit", "bytes of HBM" in str(error))
'''

    @unittest.skipIf(WHY, WHY)
    def test_the_vendors_rules(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w") as f:
                f.write(self.SCRIPT)
            done = subprocess.run([os.path.join(BUILD, "soma-nki"), path], capture_output=True,
                                  text=True, env=dict(os.environ, SOMA_PYTHON=sys.executable))
        self.assertEqual(done.stdout.splitlines(), [
            "one privateuseone:0 True", "two privateuseone:0 True", "mixed cpu True",
            "chain privateuseone:0 privateuseone:0 True True", "alone privateuseone:0 cpu",
            "limit True"], done.stderr)


@unittest.skipIf(WHY, WHY)
class Tensors(Case):
    def test_the_name_of_the_device(self):
        for where in ("neuron:0", "neuron", "privateuseone:0", torch.device("privateuseone", 0)):
            for made in (torch.rand(2, 3, device=where), torch.ones(2, 3).to(where),
                         torch.nn.Linear(2, 3).to(where).weight,
                         torch.nn.Linear(2, 3, device=where).weight,
                         torch.tensor([[1.0]], device=where), torch.ones(2).to(device=where),
                         torch.zeros_like(torch.ones(2), device=where)):
                self.assertEqual(str(made.device), "privateuseone:0")
        self.assertEqual(torch.zeros(2, device="neuron:2").device.index, 2)
        with self.assertRaisesRegex(RuntimeError, "there is no device neuron:64"):
            torch.zeros(2, device="neuron:64")

    def test_copies_of_every_type_and_layout(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64,
                      torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
                      torch.complex64):
            x = (torch.rand(4, 5, 6) * 8).to(dtype)
            y = x.to("neuron:0")
            for view in (lambda t: t, lambda t: t.permute(2, 0, 1), lambda t: t[1:3, ::2],
                         lambda t: t[..., 0], lambda t: t[2, 1, 3], lambda t: t[:, :0],
                         lambda t: t.unsqueeze(1).expand(4, 3, 5, 6)):
                with self.subTest(dtype=dtype):
                    self.assertTrue(torch.equal(view(y).cpu(), view(x)))
                    self.assertTrue(torch.equal(view(y).clone().cpu(), view(x)))
                    self.assertTrue(torch.equal(view(y).contiguous().cpu(), view(x)))
            y[:, 1:4:2] = y[:, 0:3:2]
            x[:, 1:4:2] = x[:, 0:3:2]
            self.assertTrue(torch.equal(y.cpu(), x))
            y[2] = 1
            y[:, :, 1].zero_()
            x[2] = 1
            x[:, :, 1].zero_()
            self.assertTrue(torch.equal(y.cpu(), x))
            y[1:3, :, 2:4] = torch.full((2, 5, 2), 1, dtype=dtype)
            x[1:3, :, 2:4] = 1
            self.assertTrue(torch.equal(y.cpu(), x))
        self.assertTrue(torch.equal(torch.arange(5).to("neuron:0").to("neuron:1").cpu(),
                                    torch.arange(5)))

    def test_conversions_are_torchs(self):
        x = torch.tensor([1.5, -2.5, 300.7, 1e30])
        for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.bool):
            torch.testing.assert_close(x.to("neuron:0").to(dtype).cpu(), x.to(dtype))

    def test_how_it_shows(self):
        x = torch.tensor([1.5, 2], device="neuron:0")
        self.assertEqual(repr(x), "tensor([1.5000, 2.0000], device='neuron:0')")
        self.assertEqual((x.tolist(), x[1].item(), float(x[0])), ([1.5, 2], 2, 1.5))
        self.assertEqual(repr(x.requires_grad_()),
                         "tensor([1.5000, 2.0000], device='neuron:0', requires_grad=True)")
        with self.assertRaisesRegex(TypeError, "can't convert privateuseone:0 device type"):
            x.detach().numpy()

    def test_memory_is_given_back(self):
        used = self.device.hbm["used"]
        x = torch.empty(1 << 28, 4, device="neuron:0")  # 4 GiB, nothing of the host
        self.assertEqual(self.device.hbm["used"] - used, 1 << 32)
        row = x[5]
        del x
        self.assertEqual(self.device.hbm["used"] - used, 1 << 32)
        del row
        self.assertEqual(self.device.hbm["used"], used)
        with self.assertRaisesRegex(RuntimeError, "needs 4398046511104 bytes of HBM"):
            torch.empty(1 << 40, device="neuron:0")

    def test_resize(self):
        x = torch.arange(6, device="neuron:0")
        x.resize_(2, 2)
        self.assertEqual(x.tolist(), [[0, 1], [2, 3]])
        x.resize_(10)
        self.assertEqual(x.tolist()[:6], list(range(6)))

    def test_deepcopy(self):
        x = torch.rand(3, device="neuron:0")
        y = copy.deepcopy(x)
        y += 1
        self.here(y - x, torch.ones(3))


@unittest.skipIf(WHY, WHY)
class Operations(Case):
    def test_floats_are_calculated_there(self):
        x, w = torch.rand(5, 7, 3) + 0.5, torch.rand(7, 1) + 0.5
        a, b = x.to("neuron:0"), w.to("neuron:0")
        soma.torch.fallbacks.clear()
        got = []
        cases = (lambda x, w: x + w, lambda x, w: x - 2 * w, lambda x, w: 1 / x, lambda x, w: x * w,
                 lambda x, w: -x, lambda x, w: x.exp(), lambda x, w: x.log(), lambda x, w: x.tanh(),
                 lambda x, w: torch.sigmoid(x), lambda x, w: (x - 1).relu(), lambda x, w: x ** 2,
                 lambda x, w: torch.add(x, w, alpha=3), lambda x, w: x > w, lambda x, w: x <= 1,
                 lambda x, w: torch.where(x > w, x, w), lambda x, w: x.sum(),
                 lambda x, w: x.mean(1),
                 lambda x, w: x.sum((0, 2), keepdim=True), lambda x, w: x.amax(-1),
                 lambda x, w: x.view(35, 3) @ x.view(35, 3).t(), lambda x, w: x.rsqrt(),
                 lambda x, w: x.transpose(1, 2) @ x, lambda x, w: x.permute(2, 0, 1) * 2,
                 lambda x, w: torch.nn.functional.linear(x, x[0], x[0, :, 0]),
                 lambda x, w: torch.nn.functional.silu(x), lambda x, w: x.bfloat16() + w.bfloat16(),
                 lambda x, w: x.bfloat16().float(), lambda x, w: x.clone().mul_(w).add_(1).sub_(w))
        for case in cases:
            got.append(case(a, b))
        before = self.traffic()  # the constants of the programs are there
        for case in cases:
            case(a, b)
        self.assertEqual(self.traffic(), before)
        self.assertEqual(soma.torch.fallbacks, {})
        for n, case in enumerate(cases):
            with self.subTest(case=n):
                self.here(got[n], case(x, w), 2e-2 if got[n].dtype == torch.bfloat16 else 1e-4)

    def test_others_are_done_on_the_cpu_and_counted(self):
        x = torch.rand(6, 4)
        a = x.to("neuron:0")
        soma.torch.fallbacks.clear()
        for case in (lambda x: torch.softmax(x, -1), lambda x: torch.cat([x, x]),
                     lambda x: x[x > 2],
                     lambda x: x.long() + 1, lambda x: x.double() * 2, lambda x: x.sort().values,
                     lambda x: x.index_put((torch.tensor([0, 0]).to(x.device),), x[1],
                                           accumulate=True),
                     lambda x: torch.nn.functional.layer_norm(x, (4,)),
                     lambda x: torch.nn.functional.conv1d(x[None], x[None, :, :2])):
            self.here(case(a), case(x))
        self.assertEqual(soma.torch.fallbacks["aten::cat.out"], 1)
        self.assertIn("aten::index.Tensor", soma.torch.fallbacks)

    def test_operands_on_two_devices(self):
        a = torch.rand(2, device="neuron:0")
        with self.assertRaisesRegex(RuntimeError, "operands are on cpu and privateuseone"):
            a + torch.rand(2)
        with self.assertRaisesRegex(soma.SomaError, "neuron:0 and neuron:1: a kernel works on one"):
            a + torch.rand(2, device="neuron:1")
        self.here(a * torch.tensor(2.0), a.cpu() * 2)  # without dimensions it is a number

    def test_training(self):
        def train(where):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(),
                                        torch.nn.LayerNorm(16), torch.nn.Linear(16, 3))
            x, y = torch.randn(10, 8), torch.randint(3, (10,))
            model, x, y = model.to(where), x.to(where), y.to(where)
            steps = torch.optim.Adam(model.parameters(), lr=0.01)
            for _ in range(3):
                steps.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                steps.step()
            return [loss, *model.parameters()]
        for got, want in zip(train("neuron:0"), train("cpu")):
            self.here(got, want, 1e-3)


@unittest.skipIf(WHY, WHY)
class Kernels(Case):
    def test_a_chain_copies_nothing(self):
        x = torch.rand(64, 32)
        a = x.to("neuron:0")
        before = self.traffic()
        out = plus(plus(a, a), a)
        self.assertEqual(self.traffic(), before)
        self.here(out, x * 3)
        self.here(plus(a[:, 2:8], a[:, 2:8]), x[:, 2:8] * 2)
        self.here(plus(a.bfloat16(), a.bfloat16()), x.bfloat16() * 2)
        self.here(plus.run(a, a).result, x * 2)
        self.assertEqual(plus.check(a, a), [])

    def test_one_argument_on_the_cpu_brings_the_result_there(self):
        x = torch.rand(8, 8)
        got = plus(x.to("neuron:0"), x)
        self.assertEqual(str(got.device), "cpu")
        torch.testing.assert_close(got, x * 2)

    def test_arguments_are_written_in_place(self):
        for view in (lambda t: t, lambda t: t[3:5], lambda t: t[:, 1:6], lambda t: t.t()):
            x = torch.rand(8, 8)
            a = x.to("neuron:0")
            double(view(a))
            view(x).mul_(2)
            self.here(a, x)
        for _ in range(2):  # a view that begins 1 MiB into its memory
            a = torch.ones(384, 1024, device="neuron:0")
            double(a[256:, ::2])
            self.here(a[256, :2], torch.tensor([2.0, 1.0]))
        grown = torch.rand(4, 4, device="neuron:0", requires_grad=True)
        with self.assertRaisesRegex(soma.KernelError, "the kernel writes it, and torch keeps its"):
            double(grown)
        self.here(plus(grown, grown), grown.detach().cpu() * 2)

    def test_device_arrays_and_tensors(self):
        a = self.device.array(np.ones((4, 4), np.float32))
        t = torch.ones(4, 4, device="neuron:0")
        self.here(plus(a, t), torch.full((4, 4), 2.0))
        shared = soma.torch.tensor_of(a)
        shared += 1
        np.testing.assert_array_equal(a.numpy(), 2)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(TypeError, "argument x: torch.float64 is not a type"):
            double(torch.zeros(3, 3, dtype=torch.float64, device="neuron:0"))
        with self.assertRaisesRegex(soma.SomaError, "arguments are on neuron:0 and neuron:1"):
            plus(torch.ones(2, 2, device="neuron:0"), torch.ones(2, 2, device="neuron:1"))

    def test_a_session_has_the_lines_of_the_script(self):
        with soma.session() as s:
            x = torch.ones(2, 2, device="neuron:0")
            (plus(x, x) * 2).cpu()
        self.assertEqual([c.kernel for c in s.calls], ["plus", "multiply"])
        self.assertTrue(all("test_torch.py:" in e.place for e in s.entries), s.entries)


class Gradients(Case):
    @unittest.skipIf(WHY, WHY)
    def test_a_kernel_that_cuts_them_off_is_told(self):
        w = torch.ones(128, 64, requires_grad=True)
        for x in (w, w.to("neuron:0")):
            with self.assertWarnsRegex(UserWarning, "^plus: an argument requires a gradient, and "):
                self.assertFalse(plus(x, x).requires_grad)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with torch.no_grad():
                    plus(x, x)
                plus(x.detach(), x.detach())


class Model(Case):
    @unittest.skipIf(WHY, WHY)
    def test_a_gpt_with_kernels_of_nki_library(self):
        library = os.environ.get("SOMA_NKI_LIBRARY")
        if not library:
            raise unittest.SkipTest("SOMA_NKI_LIBRARY names no checkout of nki-library")
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "gpt.html")
            done = subprocess.run(
                [os.path.join(BUILD, "soma-nki"), os.path.join(ROOT, "samples/nki/gpt_torch.py"),
                 os.path.join(library, "src", "nkilib_src"), page], capture_output=True,
                text=True, env=dict(os.environ, SOMA_PYTHON=sys.executable))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("on privateuseone:0 in 23 kernels of 7 kinds\nright: True", done.stdout)
            with open(page) as f:
                self.assertEqual(f.read().count("<iframe"), 7)


class Example(Case):
    @unittest.skipIf(WHY, WHY)
    def test_the_manuals_example(self):
        with open(os.path.join(ROOT, "python", "README.md")) as f:
            code = f.read().split("<!-- example: torch -->")[1].split("```python\n")[1]
        values = {"kernel": plus}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code.split("```")[0], values)
        self.assertEqual(str(values["y"].device), "privateuseone:0")
        self.assertEqual(str(values["z"].device), "cpu")
