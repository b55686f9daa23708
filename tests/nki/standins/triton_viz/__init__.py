"""triton_viz.trace runs the kernel here; there is nothing to look at after it."""
import nki


def trace(client=None, frontend=None, **options):
    def traced(kernel):
        return _Traced(nki.jit(kernel))
    return traced


class _Traced:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return _Traced(self.kernel[grid])

    def __call__(self, *args, pre_trace=None, **kwargs):
        return self.kernel(*args, **kwargs)


def launch(**options):
    pass
