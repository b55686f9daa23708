"""Building NKI kernels: microseconds per recorded instruction, and what a call costs that repeats.
Run by `make bench` where python3 has NumPy. Ratios are within this run; a bytecode loop is the unit
that tells machines apart."""
import contextlib
import io
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import numpy as np

import neuronxcc.nki as old_nki
import neuronxcc.nki.language as old
import nki
import nki.isa as nisa
import nki.language as nl
from soma import launch
from soma.kernel import Builder

ROUNDS = 5


def best(f):
    """Processor time of the fastest of some calls, in seconds."""
    times = []
    for _ in range(ROUNDS):
        t = time.process_time()
        f()
        times.append(time.process_time() - t)
    return min(times)


def kernel_of(n):
    """A kernel of the new style of n instructions over parts of two tiles."""
    @nki.jit
    def kernel(a):
        c = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=a)
        for i in range(n // 4):
            j = i % 8 * 64
            nisa.tensor_tensor(dst=x[:, j:j + 64], data1=x[:, j:j + 64], data2=y[:, j:j + 64],
                               op=nl.add)
            nisa.tensor_scalar(dst=y[:, j:j + 64], data=x[:, j:j + 64], op0=nl.multiply,
                               operand0=0.5)
            nisa.activation(dst=y[:, j:j + 64], op=nl.exp, data=x[:, j:j + 64])
            nisa.tensor_copy(dst=x[:, j:j + 64], src=y[:, j:j + 64])
        nisa.dma_copy(dst=c, src=x)
        return c
    return kernel


def fresh(n):
    """The same with tiles of their own in each round."""
    @nki.jit
    def kernel(a):
        c = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(n // 4):
            x = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            y = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a)
            nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=0.5)
            nisa.activation(dst=y, op=nl.exp, data=y)
            nisa.dma_copy(dst=c, src=y)
        return c
    return kernel


def of_calls(n):
    """The older style: tiles that calls return."""
    @nki.jit
    def kernel(a):
        c = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.mgrid[0:128, 0:512]
        for _ in range(n // 4):
            x = nl.load(a[i, j])
            y = nl.multiply(x, 0.5)
            x[i, j] = nl.exp(y)
            nl.store(c[i, j], x)
        return c
    return kernel


def indexed(n):
    """The older style with index objects and a mask of each round's own."""
    @nki.jit
    def kernel(a):
        c = nl.ndarray((1280, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        i, j = nl.arange(128)[:, None], nl.arange(512)[None, :]
        for k in nl.affine_range(n // 4):
            row = k % 10 * 128 + i
            x = nl.load(a[row, j], mask=row < 1280)
            y = nl.multiply(x, 0.5)
            z = nl.exp(y)
            nl.store(c[row, j], z, mask=row < 1280)
        return c
    return kernel


def generated(n):
    """As programs write kernels: arrays of tiles, index objects anew in each call, masks."""
    @old_nki.jit
    def kernel(a):
        c = nl.ndarray((128, 8, 1024), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray((8, old.par_dim(128), 1024), dtype=np.float32, name="x", buffer=nl.sbuf)
        e = nl.ndarray((8, 2, old.par_dim(128), 512), dtype=np.float32, name="", buffer=nl.sbuf)
        y = nl.ndarray((8, old.par_dim(128), 1024), dtype=np.float32, name="", buffer=nl.sbuf)
        zero = nl.ndarray((old.par_dim(128), 1), dtype=np.float32, name="zero", buffer=nl.sbuf)
        zero[nl.arange(128)[:, None], 0] = nisa.memset(shape=(128, 1), value=np.float32(0),
                                                       dtype=np.float32, mask=None)
        for _ in range(n // 64):
            for i in nl.affine_range(8):
                x[i, nl.arange(128)[:, None], nl.arange(1024)[None, :]] = nl.load(
                    a[nl.arange(128)[:, None], i, nl.arange(1024)[None, :]], dtype=np.float32,
                    mask=None)
                for j in nl.affine_range(2):
                    e[i, j, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.activation(
                        op=nl.exp, data=x[i, nl.arange(128)[:, None],
                                          512 * j + nl.arange(512)[None, :]],
                        bias=zero[nl.arange(128)[:, None], 0], scale=1.0, mask=None,
                        dtype=np.float32)
                    e[i, j, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nisa.tensor_scalar(
                        data=e[i, j, nl.arange(128)[:, None], nl.arange(512)[None, :]], op0=nl.add,
                        operand0=np.dtype(np.float32).type(1), dtype=np.float32,
                        mask=512 * j + nl.arange(512)[None, :] < 1024)
                    y[i, nl.arange(128)[:, None], 512 * j + nl.arange(512)[None, :]] = nl.multiply(
                        x[i, nl.arange(128)[:, None], 512 * j + nl.arange(512)[None, :]],
                        e[i, j, nl.arange(128)[:, None], nl.arange(512)[None, :]], mask=None,
                        dtype=np.float32)
                nl.store(c[nl.arange(128)[:, None], i, nl.arange(1024)[None, :]],
                         value=y[i, nl.arange(128)[:, None], nl.arange(1024)[None, :]], mask=None)
        return c
    return kernel


def five(n):
    """The same with five dimensions, and a mask in each call."""
    @old_nki.jit
    def kernel(a):
        c = nl.ndarray((128, 4, 2, 2, 256), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray((4, 2, old.par_dim(128), 2, 256), dtype=np.float32, name="x",
                       buffer=nl.sbuf)
        y = nl.ndarray((4, 2, old.par_dim(128), 2, 256), dtype=np.float32, name="y",
                       buffer=nl.sbuf)
        for _ in range(n // 40):
            for i in nl.affine_range(4):
                for j in nl.affine_range(2):
                    p, q = nl.arange(128)[:, None, None], nl.arange(2)[None, :, None]
                    x[i, j, p, q, nl.arange(256)[None, None, :]] = nl.load(
                        a[p, i, j, q, nl.arange(256)[None, None, :]], dtype=np.float32,
                        mask=512 * j + 256 * q + nl.arange(256)[None, None, :] < 1024)
                    y[i, j, p, q, nl.arange(256)[None, None, :]] = nisa.tensor_scalar(
                        data=x[i, j, p, q, nl.arange(256)[None, None, :]], op0=nl.multiply,
                        operand0=np.dtype(np.float32).type(0.5), dtype=np.float32,
                        mask=32 * i + p < 256)
                    y[i, j, p, q, nl.arange(256)[None, None, :]] = nisa.activation(
                        op=nl.exp, data=y[i, j, p, q, nl.arange(256)[None, None, :]], scale=1.0,
                        mask=128 * j + nl.arange(256)[None, None, :] < 512, dtype=np.float32)
                    y[i, j, p, q, nl.arange(256)[None, None, :]] = nl.add(
                        x[i, j, p, q, nl.arange(256)[None, None, :]],
                        y[i, j, p, q, nl.arange(256)[None, None, :]],
                        mask=2 * j + q < 4, dtype=np.float32)
                    nl.store(c[p, i, j, q, nl.arange(256)[None, None, :]],
                             value=y[i, j, p, q, nl.arange(256)[None, None, :]],
                             mask=32 * i + p < 256)
        return c
    return kernel


finishing = []
real_finish = Builder.finish


def finish(self, *others):
    t = time.process_time()
    try:
        return real_finish(self, *others)
    finally:
        finishing.append(time.process_time() - t)


Builder.finish = finish


def build(kernel, a):
    return launch.build(kernel.function, (a,), {}, "trn2",
                        older=kernel.options.get("style") == "neuronxcc")


a = np.zeros((128, 512), np.float32)
inputs = {indexed: np.zeros((1280, 512), np.float32),
          generated: np.zeros((128, 8, 1024), np.float32),
          five: np.zeros((128, 4, 2, 2, 256), np.float32)}


def loop():
    for _ in range(1000000):
        pass


unit = best(loop) / 1e6
print("building NKI kernels, processor time; a turn of Python's empty loop takes %.1f ns" %
      (unit * 1e9))
for name, make in (("tiles that stay", kernel_of), ("tiles of each round", fresh),
                   ("older style", of_calls), ("older style, indices and masks", indexed),
                   ("as programs write kernels", generated),
                   ("the same, five dimensions", five)):
    built = []
    finishing.clear()
    seconds = best(lambda: built.append(build(make(4000), inputs.get(make, a))))
    each = seconds / built[0].instructions
    finished = min(finishing) / built[0].instructions
    print("%-32s %6.1f us per instruction, %5.0f turns, of which the recorder %4.0f"
          % (name, each * 1e6, each / unit, (each - finished) / unit))
big = kernel_of(100000)
t = time.process_time()
program = build(big, a)
seconds = time.process_time() - t
print("%-32s %6.2f s, from the call to the program" % ("%d instructions" % program.instructions,
                                                      seconds))


@nki.jit
def attend(q, k):
    """The softmax of rows of a product."""
    out = nl.ndarray((q.shape[1], k.shape[1]), dtype=q.dtype, buffer=nl.shared_hbm)
    keys = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys, src=k)
    for i in range(q.shape[1] // 128):
        a = nl.ndarray((128, 128), dtype=q.dtype, buffer=nl.sbuf)
        s = nl.ndarray((128, k.shape[1]), dtype=nl.float32, buffer=nl.psum)
        e = nl.ndarray((128, k.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        top, total = (nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(dst=a, src=q[:, i * 128:i * 128 + 128])
        for j in range(0, k.shape[1], 512):
            nisa.nc_matmul(dst=s[:, j:j + 512], stationary=a, moving=keys[:, j:j + 512])
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=s, axis=1, negate=True)
        nisa.activation_reduce(dst=e, op=nl.exp, data=s, bias=top, reduce_op=nl.add,
                               reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[i * 128:i * 128 + 128, :], src=e)
    return out


@nki.jit
def spilling(a):
    """12 tiles of 32 KiB of each partition, of which six fit."""
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a[0:128])
    for i in range(4000):
        x[:, 0:8] = nl.multiply(x[:, 0:8], 0.5)
    tiles = [nl.load(a[i * 128:i * 128 + 128]) for i in range(12)]
    for i in range(12):
        nl.store(c[i * 128:i * 128 + 128], tiles[11 - i] + x)
    return c


def wall(f):
    """The clock's time of the fastest of some calls."""
    times = []
    for _ in range(ROUNDS):
        t = time.perf_counter()
        f()
        times.append(time.perf_counter() - t)
    return min(times)


q, k = (np.random.default_rng(i).standard_normal((128, 2048), np.float32) for i in range(2))
attend(q, k)
built, _ = attend.build((q, k), {})
machine = launch.plain_machine("trn2")
run = wall(lambda: machine.run(built.program, {"q": q, "k": k}))
check = wall(lambda: attend.check(q, k, schedules=4))
print("%-32s %6.1f of the run alone, by the clock on %d cores"
      % ("check(schedules=4)", check / run, len(os.sched_getaffinity(0))))
attend.builds.clear()
attend(q, k)
finishing.clear()
with contextlib.redirect_stdout(io.StringIO()):
    nki.benchmark(attend)(q, k)
print("%-32s %6d more programs built" % ("nki.benchmark after a call", len(finishing)))
many = np.zeros((1536, 8192), np.float32)
finishing.clear()
build(spilling, many)
print("%-32s %6d builds of one kernel" % ("a kernel that spills", len(finishing)))
small = kernel_of(40)
small(a)
built, _ = small.build((a,), {})
run = best(lambda: launch.plain_machine("trn2").run(built.program, {"a": a}))
call = best(lambda: small(a))
print("%-32s %6.2f of the run alone" % ("a call that repeats", call / run))
