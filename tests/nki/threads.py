"""What public threads asked about, in kernels of ours: each runs, or is refused with an error that
answers the question."""
import numpy as np

import harness
import neuronxcc.nki as old
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as onisa
import neuronxcc.nki.language as onl
import nki
import nki.isa as nisa
import nki.language as nl
from refs import data

FOLDER = ""
SDK, SAMPLES = "aws-neuron-sdk issues", "nki-samples issues"


def _exp_in(first, second):
    """A kernel whose two tiles have places of their own."""
    @old.jit
    def allocated(x):
        out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
        a = onl.ndarray((onl.par_dim(128), x.shape[1]), dtype=x.dtype, buffer=first)
        a[...] = onl.load(x)
        b = onl.ndarray((onl.par_dim(128), x.shape[1]), dtype=x.dtype, buffer=second)
        b[...] = onl.exp(a)
        onl.store(out, b)
        return out
    return allocated


def allocated():
    x = data(128, 512)
    kernel = _exp_in(ncc.sbuf.alloc(lambda index, rows, size: (0, 0)),
                     ncc.sbuf.alloc(lambda index, rows, size: (0, 2048)))
    harness.close(kernel(x), np.exp(x), 1e-4, 1e-4)


def allocated_outside():
    kernel = _exp_in(ncc.sbuf.mod_alloc(base_addr=0), ncc.sbuf.mod_alloc(base_addr=400000))
    return harness.refused(lambda: kernel(data(128, 512)), "400000", "threads.py:")


def two_large_tiles():
    @old.jit
    def kernel(x):
        a = onl.load(x)
        b = onl.exp(a)
        c = onl.exp(b)
        out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
        onl.store(out, onl.add(a, onl.add(b, c)))
        return out
    return harness.refused(lambda: kernel(data(128, 24642)), "98568 bytes", "does not fit in sbuf",
                           "threads.py:")


def two_large_tiles_new():
    @nki.jit
    def kernel(x):
        tiles = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(3)]
        for t in tiles:
            nisa.dma_copy(dst=t, src=x)
        for t in tiles[1:]:
            nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=t, op=nl.add)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tiles[0])
        return out
    return harness.refused(lambda: kernel(data(128, 24642)), "98568 bytes", "does not fit in sbuf",
                           "threads.py:")


def slices_of_three_dimensions():
    @nki.jit
    def unary_reduce(x):
        tile = nl.ndarray((128, 2, 512), dtype=nl.float16, buffer=nl.sbuf)
        sums = nl.ndarray((128, 2, 1), dtype=nl.float32, buffer=nl.sbuf)
        out = nl.ndarray((2, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        for m in nl.affine_range(2):
            nisa.dma_copy(tile[:, m, :], x[m, :, :])
            nisa.tensor_reduce(sums[:, m, :], nl.add, tile[:, m, :], axis=1)
            nisa.dma_copy(out[m, :], sums[:, m, 0])
        return out
    x = data(2, 128, 512, dtype=np.float16)
    harness.close(unary_reduce(x), x.astype(np.float32).sum(-1), 1e-3, 1e-3)


def zeros_in_a_buffer():
    @nki.jit
    def unary(x):
        tile = nl.ndarray((128, 512), dtype=nl.float16, buffer=nl.sbuf)
        nisa.dma_copy(tile[:, :], x[:, :])
        sums = nl.zeros((128, 512), dtype=nl.float16, buffer=nl.sbuf)
        nisa.tensor_tensor(sums[:, :], sums[:, :], tile[:, :], nl.add)
        out = nl.ndarray((128, 512), dtype=nl.float16, buffer=nl.shared_hbm)
        nisa.dma_copy(out[:, :], sums[:, :])
        return out
    x = data(128, 512, dtype=np.float16)
    harness.close(unary(x), x)


def moving_source():
    @nki.jit
    def part(x, at):
        tile = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
        place = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=place, src=at)
        view = tile.ap(pattern=[[4, 2], [1, 2]], scalar_offset=place, indirect_dim=1)
        out = nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=view)
        return out
    x = data(4, 4)
    harness.close(part(x, np.array([[1]], np.int32)), x[:2, 1:3])


def matmul_with_flag():
    @old.compiler.skip_middle_end_transformations
    @old.jit
    def product(u, x):
        out = onl.ndarray((128, 1), dtype=u.dtype, buffer=onl.shared_hbm)
        onl.store(out, onl.matmul(onl.load(u), onl.load(x)))
        return out
    u, x = data(128, 128), data(128, 1, seed=1)
    harness.close(product(u, x), u @ x, 1e-4, 1e-4)


def sum_in_a_loop():
    @old.jit
    def total(x):
        out = onl.ndarray(x.shape[1:], dtype=x.dtype, buffer=onl.shared_hbm)
        c = onl.zeros(x.shape[1:], dtype=x.dtype, buffer=onl.sbuf)
        for i in onl.sequential_range(x.shape[0]):
            c += onl.load(x[i])
        onl.store(out, c)
        return out
    x = data(5, 128, 64)
    harness.close(total(x), x.sum(0), 1e-5, 1e-5)


def generated_blocks():
    """The form of machine-made kernels: blocks by leading indices, results in one partition, loads
    of three index axes, transposes by matmul."""
    @old.jit
    def weighted(x, w):
        out = onl.ndarray((2, 512), dtype=np.float16, buffer=onl.shared_hbm)
        i_p, i_f = onl.arange(128)[:, None], onl.arange(128)[None, :]
        rows, one = onl.arange(8)[:, None], onl.arange(1)[:, None]
        identity = onl.ndarray((onl.par_dim(128), 128), dtype=np.float16)
        identity[i_p, i_f] = onl.load(onl.shared_constant(np.identity(128, dtype=np.float16)))
        weights = onl.ndarray((onl.par_dim(8), 1), dtype=np.float16)
        weights[rows, 0] = onl.load(w[rows, 0])
        loaded = onl.ndarray((2, onl.par_dim(128), 4, 8), dtype=np.float16)
        turned = onl.ndarray((2, 4, onl.par_dim(8), 128), dtype=np.float16, buffer=onl.psum)
        wide = onl.ndarray((2, onl.par_dim(8), 512), dtype=np.float16)
        sums = onl.ndarray((2, onl.par_dim(1), 512), dtype=np.float32, buffer=onl.psum)
        for i in onl.affine_range(2):
            a, b, c = (onl.arange(128)[:, None, None], onl.arange(4)[None, :, None],
                       onl.arange(8)[None, None, :])
            loaded[i, a, b, c] = onl.load(x[i, 128 * b + a, c])
            for j in onl.affine_range(4):
                turned[i, j, rows, i_f] = onisa.nc_matmul(
                    loaded[i, i_p, j, onl.arange(8)[None, :]], identity[i_p, i_f],
                    is_stationary_onezero=False, is_moving_onezero=True, is_transpose=True)
                wide[i, rows, i_f + 128 * j] = onl.copy(turned[i, j, rows, i_f], dtype=np.float16)
            sums[i, 0, onl.arange(512)[None, :]] = onisa.nc_matmul(
                weights[rows, 0], wide[i, rows, onl.arange(512)[None, :]])
            result = onl.copy(sums[i, 0, onl.arange(512)[None, :]], dtype=np.float16)
            onl.store(out[i, onl.arange(512)[None, :]], result)
        return out
    x, w = data(2, 512, 8, dtype=np.float16), data(8, 1, seed=1, dtype=np.float16)
    want = (x.astype(np.float32) @ w.astype(np.float32))[..., 0]
    timed = old.benchmark()(weighted)
    harness.close(timed(x, w), want, 2e-3, 2e-3)


CASES = ((SDK, "1009", allocated), (SDK, "1015", generated_blocks),
         (SDK, "1036", allocated_outside),
         (SDK, "1051", sum_in_a_loop), (SDK, "1060", two_large_tiles),
         (SDK, "1060", two_large_tiles_new), (SDK, "1281", slices_of_three_dimensions),
         (SDK, "1282", zeros_in_a_buffer), (SDK, "1373", moving_source),
         (SAMPLES, "91", matmul_with_flag))


def cases(table, folder):
    for where, number, run in CASES:
        table.case(where, number, run.__name__, run)
