"""A matmul on the two cores of a logical core, in two ways, each with the bits of one core.

    build/soma-nki samples/nki/two_cores.py

By rows each core makes half of the result and needs nothing of the other one. By halves of what is
summed each core reads half of both matrices, and they exchange partial sums by sendrecv. One core
makes the same halves one after the other."""
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

K, M, N = 1024, 256, 512


def load(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return t


def product(a, b):
    """a[K, M]^T b[K, N] in SBUF, K by 128."""
    sums = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    for k in range(0, a.shape[0], 128):
        nisa.nc_matmul(dst=sums, stationary=load(a[k:k + 128]), moving=load(b[k:k + 128]))
    result = nl.ndarray(sums.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=sums)
    return result


@nki.jit
def by_rows(a, b):
    out = nl.ndarray((M, N), nl.float32, buffer=nl.shared_hbm)
    cores, core = nl.num_programs(), nl.program_id(0)
    for m in range(128 * core, M, 128 * cores):
        nisa.dma_copy(dst=out[m:m + 128], src=product(a[:, m:m + 128], b))
    return out


@nki.jit
def by_sums(a, b):
    out = nl.ndarray((M, N), nl.float32, buffer=nl.shared_hbm)
    cores, core, half = nl.num_programs(), nl.program_id(0), K // 2
    for m in range(0, M, 128):
        parts = [product(a[h:h + half, m:m + 128], b[h:h + half])
                 for h in range(half * core, K, half * cores)]
        if cores == 2:
            other = nl.ndarray((128, N), nl.float32, buffer=nl.sbuf)
            nisa.sendrecv(src=parts[0], dst=other, send_to_rank=1 - core,
                          recv_from_rank=1 - core, pipe_id=0)
            parts.append(other)
        nisa.tensor_tensor(dst=parts[0], data1=parts[0], data2=parts[1], op=nl.add)
        mine = nl.ds(core * (N // cores), N // cores)  # each core stores half of the columns
        nisa.dma_copy(dst=out[m:m + 128, mine], src=parts[0][:, mine])
    return out


def main():
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((K, n)).astype(np.float32) for n in (M, N))
    want = a.astype(np.float64).T @ b
    print("%-10s %12s %12s" % ("", "one core, us", "two cores, us"))
    for kernel in (by_rows, by_sums):
        one, two = kernel.run(a, b), kernel[2].run(a, b)
        assert np.array_equal(one.result, two.result)
        assert np.allclose(two.result, want, rtol=1e-3, atol=1e-3)
        assert two.time_us < one.time_us
        print("%-10s %12.1f %12.1f" % (kernel.func.__name__, one.time_us, two.time_us))
    print("\nBoth cores of by_sums:\n")
    print(two.timeline(72))


if __name__ == "__main__":
    main()
