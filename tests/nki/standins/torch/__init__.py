"""Arrays under torch's names: what the references of public NKI examples use of it, on NumPy."""
import numpy as np

float16, float32, float64 = np.float16, np.float32, np.float64
int8, uint8, int32, int64, long = np.int8, np.uint8, np.int32, np.int64, np.int64


class Tensor(np.ndarray):
    """A NumPy array with the methods of a tensor."""

    def numpy(self):
        return self.view(np.ndarray)

    def cpu(self):
        return self

    detach = contiguous = clone = cpu

    def to(self, *args, dtype=None, device=None):
        kinds = [a for a in args if isinstance(a, type)]
        return self.astype(dtype or kinds[0]) if dtype or kinds else self

    def float(self):
        return self.astype(np.float32)

    def view(self, *shape):
        if shape and all(isinstance(n, int) for n in shape):
            return self.reshape(shape)
        return np.ndarray.view(self, *shape)

    def pow(self, n):
        return self ** n

    def mean(self, dim=None, keepdim=False, **k):
        return _as(np.mean(self.numpy(), k.get("axis", dim), keepdims=k.get("keepdims", keepdim)))

    def sum(self, dim=None, keepdim=False, **k):
        return _as(np.sum(self.numpy(), k.get("axis", dim), keepdims=k.get("keepdims", keepdim)))

    def unsqueeze(self, dim):
        return _as(np.expand_dims(self, dim))

    def transpose(self, *axes):
        if len(axes) == 2 and self.ndim != 2 or axes == (0, 1):
            return _as(np.swapaxes(self, *axes))
        return _as(np.ndarray.transpose(self, *axes))

    def permute(self, *axes):
        return _as(np.ndarray.transpose(self, *axes))

    def cos(self):
        return cos(self)

    def sin(self):
        return sin(self)


def _as(x):
    return np.asarray(x).view(Tensor)


def tensor(x, dtype=None, device=None):
    x = np.array(x, dtype)
    return _as(x.astype(np.float32) if x.dtype == np.float64 and dtype is None else x)


def from_numpy(x):
    return _as(x)


def arange(*args, dtype=None, device=None):
    return _as(np.arange(*args, dtype=dtype))


def _shape(shape):
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


def _make(function):
    def make(*shape, dtype=np.float32, device=None):
        return _as(function(_shape(shape)).astype(dtype))
    return make


empty = zeros = _make(np.zeros)
ones = _make(np.ones)
randn = _make(np.random.standard_normal)
rand = _make(np.random.random_sample)


def empty_like(x):
    return _as(np.zeros_like(x))


zeros_like = empty_like


def cat(parts, dim=0):
    return _as(np.concatenate(parts, dim))


def _elementwise(function):
    return lambda x: _as(function(x))


cos, sin, exp, abs, sqrt = map(_elementwise, (np.cos, np.sin, np.exp, np.abs, np.sqrt))
rsqrt = _elementwise(lambda x: 1 / np.sqrt(x))
max, min, matmul = np.max, np.min, np.matmul


def allclose(a, b, rtol=1e-5, atol=1e-8):
    return np.allclose(a, b, rtol=rtol, atol=atol)


def manual_seed(seed):
    np.random.seed(seed)


from . import nn  # noqa: E402,F401
