"""Registers the backend "xla" of torch.distributed: gloo, as tensors are on the CPU."""
import os

import torch.distributed as dist

from soma.errors import not_in_stand_in

__getattr__ = not_in_stand_in(__name__)


def _process_group(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


def _rendezvous(url, *arguments, **options):
    """xla://: as env:// under torchrun, else one process alone."""
    if "MASTER_ADDR" in os.environ:
        yield from dist.rendezvous("env://")
        return
    yield dist.HashStore(), 0, 1


def _register():
    if not dist.is_available():
        raise ImportError("torch_xla.distributed.xla_backend: this torch has no torch.distributed")
    if not hasattr(dist, "ProcessGroupGloo"):
        raise ImportError("torch_xla.distributed.xla_backend: this torch has no gloo, to which "
                          "Soma's stand-in maps the backend xla")
    if not hasattr(dist.Backend, "XLA"):
        dist.Backend.register_backend("xla", _process_group)
    try:
        dist.register_rendezvous_handler("xla", _rendezvous)
    except RuntimeError:  # this torch knows xla://
        pass


_register()
