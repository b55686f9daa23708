"""torch_xla.core.xla_model for one process whose device is the CPU."""
import sys

import torch

from soma.errors import not_in_stand_in

from .. import device
from .. import sync as _sync

__getattr__ = not_in_stand_in(__name__)


def xla_device(n=None, devkind=None):
    return device(n)


def mark_step(wait=False, reset_scope=True):
    _sync(wait)


def wait_device_ops(devices=()):
    _sync(True)


def get_ordinal(defval=0):
    return defval


get_local_ordinal = get_ordinal


def xrt_world_size(defval=1):
    return defval


def is_master_ordinal(local=True):
    return True


def master_print(*args, fd=sys.stdout, local=False, flush=False):
    print(*args, file=fd, flush=flush)


def optimizer_step(optimizer, barrier=False, optimizer_args=None):
    """The step; gradients of one process need no reduction."""
    return optimizer.step(**(optimizer_args or {}))


def save(data, file_or_path, master_only=True, global_master=False):
    torch.save(data, file_or_path)
