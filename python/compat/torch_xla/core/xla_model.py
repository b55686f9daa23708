"""torch_xla.core.xla_model where the device is the CPU. Several processes are those of
torch.distributed, once its process group is there (xla_backend)."""
import os
import sys

import torch
import torch.distributed as dist

from soma.errors import not_in_stand_in

from .. import device
from .. import sync as _sync

__getattr__ = not_in_stand_in(__name__)

REDUCE_SUM, REDUCE_MUL, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "min", "max"
_WITH = {"sum": "SUM", "mul": "PRODUCT", "min": "MIN", "max": "MAX"}


def _several():
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def xla_device(n=None, devkind=None):
    return device(n)


def get_xla_supported_devices(devkind=None, max_devices=None):
    return ["xla:0"]


def mark_step(wait=False, reset_scope=True):
    _sync(wait)


def wait_device_ops(devices=()):
    _sync(True)


def add_step_closure(closure, args=(), run_async=False):
    closure(*args)  # the step has been done


def get_ordinal(defval=0):
    return dist.get_rank() if _several() else defval


def get_local_ordinal(defval=0):
    return int(os.environ.get("LOCAL_RANK", get_ordinal())) if _several() else defval


def xrt_world_size(defval=1):
    return dist.get_world_size() if _several() else defval


def is_master_ordinal(local=True):
    return (get_local_ordinal() if local else get_ordinal()) == 0


def master_print(*args, fd=None, local=False, flush=False):
    if is_master_ordinal(local):
        print(*args, file=fd or sys.stdout, flush=flush)


def rendezvous(tag, payload=b"", replicas=()):
    """Waits for all processes; the payloads of all."""
    if replicas:
        raise NotImplementedError("rendezvous of some replicas is not built in Soma's stand-in")
    return mesh_reduce(tag, payload, lambda payloads: payloads)


def mesh_reduce(tag, data, reduce_fn):
    found = [data]
    if _several():
        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, data)
    return reduce_fn(found)


def all_reduce(reduce_type, inputs, scale=1.0, groups=None, pin_layout=True):
    """Of a tensor a new one; a list of tensors is changed."""
    if groups is not None:
        raise NotImplementedError("all_reduce with groups is not built in Soma's stand-in")
    new = isinstance(inputs, torch.Tensor)
    tensors = [inputs.clone()] if new else list(inputs)
    with torch.no_grad():
        for t in tensors:
            if _several():
                dist.all_reduce(t, getattr(dist.ReduceOp, _WITH[reduce_type]))
            if scale != 1.0:
                t.mul_(scale)
    return tensors[0] if new else None


def reduce_gradients(optimizer, groups=None, pin_layout=True):
    """The mean of all processes' gradients."""
    gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    all_reduce(REDUCE_SUM, gradients, 1.0 / xrt_world_size(), groups)


def optimizer_step(optimizer, barrier=False, optimizer_args=None, groups=None):
    reduce_gradients(optimizer, groups)
    return optimizer.step(**(optimizer_args or {}))


def save(data, file_or_path, master_only=True, global_master=False):
    """Process 0's, or with master_only=False each process's."""
    if is_master_ordinal(not global_master) or not master_only:
        torch.save(data, file_or_path)
    rendezvous("save")


def get_rng_state(device=None):
    return torch.initial_seed()


def set_rng_state(seed, device=None):
    torch.manual_seed(seed)
