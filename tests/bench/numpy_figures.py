"""NumPy on the tiles of bench_kern, one thread: medians in microseconds. Run by `make bench` where
python3 has NumPy."""
import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import time

import numpy as np


def median_us(f):
    times = []
    for _ in range(61):
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return sorted(times)[30] * 1e6


x = ((np.arange(128 * 512) * 7919 % 4001) / 500 - 4).astype(np.float32).reshape(128, 512)
w = x[:, :128].copy()
o = np.empty_like(x)
cases = {
    "matmul 128x128x512": lambda: np.matmul(w.T, x, out=o),
    "add": lambda: np.add(x, x, out=o),
    "max": lambda: np.maximum(x, o, out=o),
    "divide": lambda: np.divide(x, x + 9, out=o),
    "exp": lambda: np.exp(x, out=o),
    "tanh": lambda: np.tanh(x, out=o),
    "row sum": lambda: x.sum(axis=1),
    "row max": lambda: x.max(axis=1),
}
print(f"NumPy {np.__version__}, microseconds, one thread")
for name, f in cases.items():
    print(f"{name:32s} {median_us(f):9.2f}")
