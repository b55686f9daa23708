"""A vector addition four ways, from one element per partition to overlapping tiles.

    build/soma-nki samples/nki/vector_add.py

Each version does what limited the one before: the size of a transfer, then the buffers."""
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


def add_columns(a, b, out, width, buffers):
    """out = a + b for (128, N) tensors, `width` columns at a time, in `buffers` sets of tiles."""
    made = [[nl.ndarray((128, width), nl.float32) for _ in range(2)] for _ in range(buffers)]
    for i in range(a.shape[1] // width):
        x, y = made[i % buffers]
        columns = nl.ds(i * width, width)
        nisa.dma_copy(dst=x, src=a[:, columns])
        nisa.dma_copy(dst=y, src=b[:, columns])
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out[:, columns], src=x)


def version(width, buffers):
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        add_columns(a, b, out, width, buffers)
        return out
    return kernel


def main():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 8192)).astype(np.float32) for _ in range(2))
    moved = 3 * a.nbytes
    print("columns  buffers  simulated us  GB/s")
    for width, buffers in ((16, 1), (512, 1), (512, 2), (512, 4)):
        kernel = version(width, buffers)
        run = kernel.run(a, b)
        assert np.array_equal(run.result, a + b)
        print("%7d  %7d  %12.1f  %4.0f" % (width, buffers, run.time_us, moved / run.time_ns))
    print("\nThe last version over time (one row for each engine and queue):\n")
    print(run.timeline(80))
    print("The checks find %s." % (kernel.check(a, b, schedules=2) or "nothing"))


if __name__ == "__main__":
    main()
