"""Packages that stand in for torch_xla and torch_neuronx; skipped without torch (python3-torch)."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMMAND = os.path.join(ROOT, os.environ.get("BUILD", "build"), "soma-nki")
KERNELS = '''
import torch, neuronxcc.nki as nki, neuronxcc.nki.language as nl

def twice(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.load(x) * 2)
    return y

def into(x, y):  # the older form: the result is an argument
    nl.store(y, nl.load(x) * 3)

x = torch.ones((4, 16))
'''


@unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is not installed")
@unittest.skipIf(importlib.util.find_spec("torch_xla"), "the real torch_xla is installed")
class Compat(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.scratch.cleanup()

    def run_it(self, code, *words, files=()):
        for name, text in [("script.py", KERNELS + code), *files]:
            path = os.path.join(self.scratch.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        environment = dict(os.environ, SOMA_PYTHON=sys.executable, PYTHONDONTWRITEBYTECODE="1")
        for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        done = subprocess.run(list(words or (COMMAND, "script.py")), cwd=self.scratch.name,
                              capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split(), done.stderr

    def test_xla(self):
        out, err = self.run_it('''
import torch_xla
from torch_xla.core import xla_model as xm
a = x.to(device=xm.xla_device())
b = nki.jit(twice)(a)
xm.mark_step()
torch_xla.sync()
print(b.sum().item(), b.device, torch_xla.device(), xm.xrt_world_size(), xm.is_master_ordinal())
w = torch.nn.Parameter(torch.ones(2))
w.sum().backward()
xm.optimizer_step(torch.optim.SGD([w], 0.5), barrier=True)
xm.wait_device_ops()
xm.save(w, "w.pt")
xm.master_print(torch.load("w.pt").tolist()[0], xm.get_ordinal(), xm.get_local_ordinal())
''')
        self.assertEqual(out, ["128.0", "cpu", "cpu", "1", "True", "0.5", "0", "0"])
        self.assertEqual(err.count("torch_xla is Soma's"), 1)

    def test_neuronx(self):
        out, err = self.run_it('''
import torch_neuronx
from torch_neuronx.xla_impl.ops import nki_jit
y = torch.zeros((4, 16))
torch_neuronx.nki_jit()(into)(x, y)
print(y.sum().item(), nki_jit(twice)(x).sum().item(), nki_jit(twice, grid=(1,))(x)[0, 0].item())
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.kernel = torch.nn.Linear(16, 16), torch_neuronx.wrap_nki(twice)
    def forward(self, x):
        return self.kernel(self.line(x.detach()).detach())
model = Model()
traced = torch_neuronx.trace(model, (x,))
torch_neuronx.move_trace_to_device(traced, 0)
print(torch.equal(traced(x), model.line(x) * 2))
import soma
with soma.session() as calls:
    traced(x)
try:
    torch.jit.save(traced, "model.pt")
except NotImplementedError as error:
    print(str(error).replace(" ", "_"))
plain = torch_neuronx.trace(torch.nn.Linear(16, 2), x)
torch.jit.save(plain, "model.pt")
loaded = torch.jit.load("model.pt")(x)
print(torch.equal(loaded, plain(x)) and not loaded.requires_grad
      and plain.function.weight.requires_grad)
print([c.place for c in calls.calls if c.kernel == "twice"][0])  # the kernel's call in the model
from torch_neuronx.utils import get_platform_target
print(get_platform_target())
''')
        self.assertEqual(out, ["192.0", "128.0", "2.0", "True",
                               "model.pt:_a_model_that_calls_kernels_of_NKI_(twice)_cannot_be_"
                               "saved",
                               "True", "script.py:24", "trn2"])
        self.assertEqual(err.count("torch_neuronx is Soma's"), 1)

    def test_the_backend_xla_is_gloo(self):
        out, _ = self.run_it('''
import torch.distributed as dist, torch_xla.distributed.xla_backend
dist.init_process_group("xla", init_method="xla://")
t = torch.ones(3)
dist.all_reduce(t)
print(dist.get_world_size(), t.sum().item())
''')
        self.assertEqual(out, ["1", "3.0"])

    def test_the_device_by_its_name(self):
        out, _ = self.run_it('''
import torch_xla
w = torch.nn.Linear(16, 2).to("xla")
a = torch.zeros((2, 16), device="xla:0").to(torch.device("xla"))
print(w(a).shape[1], nki.jit(twice)(x.to("xla")).sum().item(), a.device, w.weight.device)
''')
        self.assertEqual(out, ["2", "128.0", "cpu", "cpu"])

    def test_several_processes(self):
        """Ordinals, sums and gradients are those of all; each of them was told 0 of 1."""
        out, err = self.run_it('''
import torch_xla.core.xla_model as xm, torch_xla.distributed.xla_backend, torch_xla.runtime as xr
import torch.distributed as dist
dist.init_process_group("xla")
me = xm.get_ordinal()
w = torch.nn.Parameter(torch.zeros(2))
(w * (me + 1)).sum().backward()
xm.optimizer_step(torch.optim.SGD([w], 1.0))
total = xm.all_reduce(xm.REDUCE_SUM, torch.ones(2) * me, scale=0.5)
all_of = xm.mesh_reduce("t", me, sorted)
xm.save({"by": me}, "by.pt")
xm.rendezvous("end")
xm.master_print(me, xm.xrt_world_size(), xr.world_size(), w.tolist()[0], total.tolist()[0],
                str(all_of).replace(" ", ""), torch.load("by.pt")["by"])
''', COMMAND, "-n", "2", "script.py")
        self.assertEqual(out, ["0", "2", "2", "-1.5", "0.5", "[0,1]", "0"], err)

    def test_loaders_and_what_measures_nothing(self):
        out, err = self.run_it('''
import torch_xla.debug.metrics as met, torch_xla.debug.profiler as xp, torch_neuronx
import torch_xla.core.xla_model as xm, torch_xla.runtime as xr
import torch_xla.distributed.parallel_loader as pl, torch_xla.distributed.xla_multiprocessing as xmp
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x), batch_size=2)
device = xm.xla_device()
def main(index, scale):
    server, n = xp.start_server(9012), 0.0
    with xp.Trace("step"), torch_neuronx.experimental.profiler.profile(port=9012):
        for a, b in pl.MpDeviceLoader(loader, device):
            n += (a + b).sum().item()
    print(index, n * scale, len(pl.MpDeviceLoader(loader, device)), xr.device_type())
xmp.spawn(main, args=(2,))
met.clear_all()
print(met.metrics_report().count("stand-in"), met.counter_names())
try:
    xmp.spawn(main, args=(2,), nprocs=2)
except NotImplementedError as error:
    print("soma-nki -n 2" in str(error))
''')
        self.assertEqual(out, ["0", "256.0", "2", "CPU", "1", "[]", "True"])
        self.assertIn("torch_neuronx.experimental.profiler (Soma's): writes nothing", err)

    def test_what_is_not_built_is_refused_by_name(self):
        out, _ = self.run_it('''
import torch_xla.core.xla_model as xm, torch_neuronx, torch_xla
for module, name in ((xm, "all_to_all"), (torch_neuronx, "DataParallel"), (torch_xla, "_XLAC")):
    try:
        getattr(module, name)
    except AttributeError as error:
        print(str(error).split(" is not built: ")[0])
''')
        self.assertEqual(out, ["torch_xla.core.xla_model.all_to_all", "torch_neuronx.DataParallel",
                               "torch_xla._XLAC"])

    def test_the_real_ones_come_first(self):
        real = [("torch_xla/__init__.py", "name = 'real'\n")]
        code = "import torch_xla\nprint(torch_xla.name)\n"
        self.assertEqual(self.run_it(code, files=real)[0], ["real"])

    def test_children_have_them(self):
        code = "import torch_xla\nprint(torch_xla.device())\n"
        out, _ = self.run_it(code, "sh", "-c", 'eval "$(%s --env)"; python3 script.py' % COMMAND)
        self.assertEqual(out, ["cpu"])
