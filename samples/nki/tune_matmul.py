"""225 tilings of a matmul, tried by simulated time with a decorator."""
import sys

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
P = 128


@soma.autotune(over={"width": [128, 256, 512], "rows": [1, 2, 4, 8, 16], "depth": [1, 2, 4, 8, 16],
                     "engine": ["vector", "scalar", "any"]})
@nki.jit
def matmul(at, b, width, rows, depth, engine):
    """at.T @ b: a block of `rows` x 128 rows of the result at a time, whose a and b are loaded
    `depth` x 128 rows at a time; `engine` takes the sums out of PSUM."""
    K, M = at.shape
    N = b.shape[1]
    out = nl.ndarray((M, N), dtype=at.dtype, buffer=nl.shared_hbm)
    copies = {"vector": nisa.vector_engine, "scalar": nisa.scalar_engine,
              "any": nisa.unknown_engine}[engine]
    rows, depth = min(rows * P, M), min(depth, K // P)
    for m in range(0, M, rows):
        a = {}
        for k in range(0, K, P * depth):  # a block of at: depth x 128 rows, `rows` columns
            for d in range(depth):
                a[k + d * P] = nl.ndarray((P, rows), dtype=at.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a[k + d * P], src=at[k + d * P:k + d * P + P, m:m + rows])
        for n in range(0, N, width):
            right = {}
            for k in range(0, K, P * depth):
                t = nl.ndarray((P, depth * width), dtype=b.dtype, buffer=nl.sbuf)
                for d in range(depth):
                    nisa.dma_copy(dst=t[:, d * width:d * width + width],
                                  src=b[k + d * P:k + d * P + P, n:n + width])
                    right[k + d * P] = t[:, d * width:d * width + width]
            for r in range(rows // P):
                s = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.psum)
                for k in range(0, K, P):
                    nisa.nc_matmul(dst=s, stationary=a[k][:, r * P:r * P + P], moving=right[k],
                                   accumulate=k > 0)
                done = nl.ndarray((P, width), dtype=at.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=done, src=s, engine=copies)
                nisa.dma_copy(dst=out[m + r * P:m + r * P + P, n:n + width], src=done)
    return out


rng = np.random.default_rng(1)
x, y = (rng.standard_normal((SIZE, SIZE), dtype=np.float32) for _ in range(2))
tried = matmul.tune(x, y)
times = sorted((r for r in tried.rows if "time_us" in r), key=lambda r: r["time_us"])
print("%d of %d are possible" % (len(times), len(tried)))
for row in (times[0], times[len(times) // 2], times[-1]):
    print("%9.1f us  %s" % (row["time_us"], {n: row[n] for n in tried.parameters}))
print("right:", np.allclose(matmul(x, y), x.T @ y, rtol=1e-3, atol=1e-3))
