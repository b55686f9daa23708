"""aws-neuron/nki-samples: the tutorials, with data and tolerances of their own scripts."""
import os
import sys

import numpy as np

import harness
from refs import bf16

FOLDER = "nki-samples"
BASE = os.path.join("src", "nki_samples", "tutorials")


def _data(*shape, seed=0, low=0.0, high=1.0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def _add(function, shape):
    def run():
        a, b = _data(*shape, seed=1, dtype=np.float16), _data(*shape, seed=2, dtype=np.float16)
        harness.close(function(a, b), a + b, 1e-2, 1e-4)
    return run


def _transpose(kernel):
    def run():
        a = np.arange(60, dtype=np.int8).reshape(5, 12)
        want = a.reshape(5, 3, 4).transpose(0, 2, 1).reshape(5, 12)
        harness.close(kernel(a, (3, 4)), want)
    return run


def _pool(kernel):
    def run():
        a = np.arange(72, dtype=np.float16).reshape(2, 6, 6)
        harness.close(kernel(a, 2), a.reshape(2, 3, 2, 3, 2).mean((2, 4)), 0, 0)
    return run


def _matmul(kernel, m, k, n):
    def run():
        a, b = _data(m, k, seed=1, dtype=np.float16), _data(k, n, seed=2, dtype=np.float16)
        want = a.astype(np.float32) @ b.astype(np.float32)
        harness.close(kernel(np.ascontiguousarray(a.T), b), want, 1e-2, 1e-4)
    return run


def mamba(delta, u, A, B, C):
    """Mamba's selective scan: (batch, channels, time), states along axis 1 of A, B, C."""
    decay = np.exp(delta[:, :, None, :] * A[None, :, :, None])
    given = delta[:, :, None, :] * B[:, None, :, :] * u[:, :, None, :]
    state, out = np.zeros(decay.shape[:3], np.float32), np.zeros(delta.shape, np.float32)
    for t in range(delta.shape[2]):
        state = decay[..., t] * state + given[..., t]
        out[..., t] = (C[:, None, :, t] * state).sum(-1)
    return out


def _mamba(kernel, channels, seq_len):
    def run():
        u, delta = _data(1, channels, seq_len, seed=1), _data(1, channels, seq_len, seed=2)
        A = -_data(channels, 16, seed=3)
        B, C = _data(1, 16, seq_len, seed=4), _data(1, 16, seq_len, seed=5)
        harness.close(kernel(delta, u, A, B, C), mamba(delta, u, A, B, C), 1e-2, 1e-2)
    return run


def attention(q, k, v):
    """softmax(q' k) v' of (d, sequence) arrays."""
    qk = q.T.astype(np.float64) @ k
    e = np.exp(qk - qk.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v.T


def _attention(kernel, seqlen):
    def run():
        q, k, v = (_data(128, seqlen, seed=i, low=-1, high=1) for i in range(3))
        harness.close(kernel(q, k, v), attention(q, k, v), 1e-5, 1e-2)
    return run


def twice(x, axis):
    """Linear interpolation to twice the size along an axis: pixels' centres at halves."""
    n = x.shape[axis]
    near = np.repeat(x, 2, axis)
    side = np.clip(np.arange(2 * n) // 2 + np.where(np.arange(2 * n) % 2, 1, -1), 0, n - 1)
    return 0.75 * near + 0.25 * np.take(x, side, axis)


def _bilinear(kernel):
    x = _data(1, 64, 20, 30)
    harness.close(kernel(x), twice(twice(x, 2), 3), 1e-2, 1e-4)


def _trilinear(kernel):
    x = _data(1, 64, 9, 9, 9)
    harness.close(kernel(x), twice(twice(twice(x, 2), 3), 4), 1e-2, 1e-4)


def _product(kernel):
    import nki
    a, b = (_data(n, m, seed=m, dtype=np.float16) for n, m in ((1024, 512), (1024, 2048)))
    want = a.T.astype(np.float32) @ b.astype(np.float32)
    harness.close(nki.jit(kernel)(a, b), want, 1e-2, 1e-4)


def _max_pool(kernel):
    x = _data(200, 200)
    want = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).max((2, 3))
    harness.close(kernel(x, 3), want, 1.3e-6, 1e-5)


def _plain(test):
    return lambda kernel: lambda: test(kernel)


class _Ready(Exception):
    """A file has made its kernel."""


def _pipelined(folder, path):
    """Attention of a whole section of 8192 places. The file goes on to run the kernel on twice as
    many with arrays that need ml_dtypes: it is read up to there."""
    def ready(*shape):
        raise _Ready

    def run():
        real, np.random.rand = np.random.rand, ready
        try:
            harness.load(os.path.join(folder, path))
        except _Ready:
            pass
        finally:
            np.random.rand = real
        kernel = sys.modules["pipelined_attention"].flash_fwd
        n, d = 8192, 128
        q, k, v = (bf16(_data(*shape, seed=i))
                   for i, shape in enumerate(((1, d, n), (1, d, n), (1, n, d))))
        got = kernel[1](q, k, v, mixed_precision=True, softmax_scale=0.125, use_causal_mask=False)
        a, b, c = (harness.numbers(x)[0].astype(np.float32) for x in (q, k, v))
        e = np.exp(a.T * np.float32(0.125) @ b - 45)
        harness.close(got[0], e @ c / e.sum(1, keepdims=True), 0, 1e-2)
    return run


CONTRIBUTED = (("interpolate_bilinear_fwd", "interpolate_bilinear_2x_fwd", _bilinear),
               ("interpolate_trilinear_fwd", "interpolate_trilinear_2x_fwd", _trilinear),
               ("matmul", "matmul", _product),
               ("maxpooling", "max_pooling_2d_stride_1", _max_pool))


def cases(table, folder):
    def file(*names):
        return os.path.join(BASE, *names)

    def case(path, name, make, *args, published=None, targets=harness.ALSO):
        if not any(table.wants(FOLDER, path, name, t) for t in ("trn2",) + harness.ALSO):
            return

        def run():
            module = harness.load(os.path.join(folder, path))
            make(getattr(module, name), *args)()
        table.case(FOLDER, path, name, run, published=published,
                   also=() if make is _attention else targets)
    adds = "tensor_addition"
    case(file(adds, "tensor_addition_nki_kernels.py"), "nki_tensor_add", _add, (256, 1024))
    case(file(adds, "spmd_tensor_addition_nki_kernels.py"), "nki_tensor_add", _add, (256, 1024))
    case(file(adds, "spmd_multiple_nc_tensor_addition_nki_kernels.py"), "nki_tensor_add_nc2", _add,
         (512, 2048))
    case(file("transpose2d", "transpose2d_nki_kernels.py"), "tensor_transpose2D_kernel_",
         _transpose)
    case(file("average_pool2d", "average_pool2d_nki_kernels.py"), "tensor_avgpool_kernel", _pool)
    products = file("matrix_multiplication", "matrix_multiplication_nki_kernels.py")
    case(products, "nki_matmul_basic_", _matmul, 64, 128, 512)
    for name in ("tiled_", "hoist_load_", "block_free_dimension_"):
        case(products, "nki_matmul_" + name, _matmul, 512, 256, 1024)
    case(products, "nki_matmul_fully_optimized_", _matmul, 2048, 1024, 1024)
    # Times that nki/guides/tutorials/fused_mamba.rst of aws-neuron-sdk states, without a target.
    for version, small, large in ((1, 172.93, 2340), (2, None, 1610), (3, None, 1600)):
        path, name = file("fused_mamba", "mamba_nki_kernels.py"), "mamba_v%d" % version
        case(path, name, _mamba, 256, 512, published=small)
        case(path, name, _mamba, 4096, 512, published=large, targets=())
    case(file("attention_fwd_performance", "attention_kernels.py"), "attn_fwd_v3", _attention, 512)
    for version in "1 2 3 4 5 6 7 8 8a 9 10 11".split():
        case(file("attention_fwd_performance", "attention_kernels.py"), "attn_fwd_v" + version,
             _attention, 128 if version in "12" else 4096)
    for name, function, test in CONTRIBUTED:
        case(os.path.join("contributed", name + ".py"), function, _plain(test))
    path = os.path.join("contributed", "pipelined_attention.py")
    table.case(FOLDER, path, "flash_fwd", _pipelined(folder, path),
               known=("uninit", "tile scaling_factor", "with one section it scales the sums of "
                      "earlier ones, of which there are none"))
