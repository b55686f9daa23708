"""torch_xla.distributed.parallel_loader: batches of a loader, moved to the device."""
import torch
from torch.utils._pytree import tree_map

from soma.errors import not_in_stand_in

__getattr__ = not_in_stand_in(__name__)


class MpDeviceLoader:
    def __init__(self, loader, device, **options):
        self._loader, self._device = loader, device

    def __iter__(self):
        for batch in self._loader:
            yield tree_map(lambda x: x.to(self._device) if isinstance(x, torch.Tensor) else x,
                           batch)

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._loader, name)


class ParallelLoader:
    def __init__(self, cpu_loader, devices, **options):
        self._loader = cpu_loader

    def per_device_loader(self, device):
        return MpDeviceLoader(self._loader, device)

    def close(self):
        pass
