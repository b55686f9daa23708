#!/usr/bin/env python3
"""Makes the .npy files of this folder with NumPy: inputs of the samples and what NumPy computes
from them in double precision. bfloat16 tensors are stored as their bits in uint16."""
import numpy as np

rng = np.random.default_rng(20261121)


def bf16(x):
    """Nearest bfloat16 of each float32, ties to even: its bits, and its value."""
    u = x.astype(np.float32).view(np.uint32)
    bits = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


a = rng.standard_normal((128, 1)).astype(np.float32)
b = rng.standard_normal((128, 1)).astype(np.float32)
np.save("add_a.npy", a)
np.save("add_b.npy", b)
np.save("add_c.npy", a + b)

a_bits, a = bf16(rng.standard_normal((256, 128)))
b_bits, b = bf16(rng.standard_normal((256, 512)))
np.save("matmul_a.npy", a_bits)
np.save("matmul_b.npy", b_bits)
np.save("matmul_c.npy", (a.astype(np.float64).T @ b.astype(np.float64)).astype(np.float32))

x = (4 * rng.standard_normal((256, 96))).astype(np.float32)
e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
np.save("softmax_x.npy", x)
np.save("softmax_y.npy", (e / e.sum(axis=1, keepdims=True)).astype(np.float32))
