"""nki_jit: kernels of NKI in a model of torch."""
from soma.errors import not_in_stand_in

__getattr__ = not_in_stand_in(__name__)


def nki_jit(func=None, grid=None, **options):
    """A kernel from a function, as @nki_jit, @nki_jit() or nki_jit()(function); it takes tensors of
    torch, and writes those that the function writes."""
    from neuronxcc import nki
    if func is None:
        return lambda f: nki_jit(f, grid, **options)
    kernel = nki.jit(func, **options)
    return kernel if grid is None else kernel[grid]
