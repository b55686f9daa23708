"""torch_xla.distributed.xla_multiprocessing: one process, this one."""
from soma.errors import not_in_stand_in

__getattr__ = not_in_stand_in(__name__)


def spawn(fn, args=(), nprocs=None, join=True, daemon=False, start_method="spawn"):
    """fn(0, *args), as on an instance with one device."""
    if nprocs not in (None, 1):
        raise NotImplementedError("xmp.spawn(nprocs=%r) is not built in Soma's stand-in: start the "
                                  "script with soma-nki -n %s, or torchrun" % (nprocs, nprocs))
    fn(0, *args)


class MpModelWrapper:
    def __init__(self, model):
        self._model = model

    def to(self, device):
        return self._model.to(device)
