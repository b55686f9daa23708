"""Data and functions that several references use."""
import math

import numpy as np

import soma


def data(*shape, seed=0, low=0.0, high=1.0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def bf16(x):
    return soma.array(x, "bfloat16")


def norm(x, gamma, eps=1e-6):
    """RMS norm along the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gamma


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


erf = np.vectorize(math.erf, otypes=[np.float64])


def interleave(x):
    """The halves of axis 0 as even and odd rows."""
    a, b = np.split(x, 2)
    return np.stack((a, b), 1).reshape(x.shape)
