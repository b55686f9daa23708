"""Mistakes that kernel engineers make: check() tells each at a line that is marked `# <<`, as a
finding, a warning or an error."""
import inspect
import re
import unittest
import warnings

import numpy as np
from helper import KernelCase, data

import nki
import nki.isa as nisa
import nki.language as nl

f32 = nl.float32
MISTAKES = []


def case(*args, grid=None):
    def note(f):
        MISTAKES.append((f, args, grid))
        return f
    return note


def hbm(s, d=f32, b=nl.shared_hbm):
    return nl.ndarray(s, dtype=d, buffer=b)


def sb(s, d=f32):
    return nl.ndarray(s, dtype=d, buffer=nl.sbuf)


@case(data(300, 64))
def tail_rows(x):
    """The last block has 44 rows, the whole tile is summed over partitions by a matmul."""
    out = hbm((1, 64))
    acc = nl.zeros((1, 64), dtype=f32, buffer=nl.psum)
    ones = sb((128, 1))
    nisa.memset(dst=ones, value=1.0)
    for i in range(3):
        n = min(128, 300 - i * 128)
        t = sb((128, 64))
        nisa.dma_copy(dst=t[0:n], src=x[i * 128:i * 128 + n])
        nisa.nc_matmul(dst=acc, stationary=ones, moving=t)  # <<
    r = sb((1, 64))
    nisa.tensor_copy(dst=r, src=acc)
    nisa.dma_copy(dst=out, src=r)
    return out


@case(data(128, 256))
def wrong_buffer(x):
    """Double buffer: computes from the other one."""
    out = hbm(x.shape)
    bufs = [sb((128, 64)) for _ in range(2)]
    for i in range(4):
        nisa.dma_copy(dst=bufs[i % 2], src=x[:, i * 64:i * 64 + 64])
        t = sb((128, 64))
        nisa.activation(dst=t, op=nl.exp, data=bufs[(i + 1) % 2])  # <<
        nisa.dma_copy(dst=out[:, i * 64:i * 64 + 64], src=t)
    return out


@case(data(128, 128), data(128, 512))
def two_sums_in_one_bank(a, b):
    """The second sum starts over the first before it was read."""
    out = hbm((128, 512))
    ta, tb = sb((128, 128)), sb((128, 512))
    nisa.dma_copy(dst=ta, src=a)
    nisa.dma_copy(dst=tb, src=b)
    p = nl.ndarray((128, 512), dtype=f32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=ta, moving=tb, accumulate=False)  # <<
    nisa.nc_matmul(dst=p, stationary=tb[:, 0:128], moving=tb, accumulate=False)  # <<
    r = sb((128, 512))
    nisa.tensor_copy(dst=r, src=p)
    nisa.dma_copy(dst=out, src=r)
    return out


@case(data(128, 500))
def last_columns_not_stored(x):
    out = hbm(x.shape)
    for j in range(500 // 128):
        t = sb((128, 128))
        nisa.dma_copy(dst=t, src=x[:, j * 128:j * 128 + 128])
        nisa.dma_copy(dst=out[:, j * 128:j * 128 + 128], src=t)  # <<
    return out


@case(data(128, 64))
def scratch_row(x):
    """The scratch in HBM is written to row i, read from row i + 1."""
    out = hbm((64, 64))
    s = hbm((128, 64), b=nl.private_hbm)
    t = sb((64, 64))
    nisa.dma_copy(dst=t, src=x[0:64])
    nisa.dma_copy(dst=s[0:64], src=t)
    u = sb((64, 64))
    nisa.dma_copy(dst=u, src=s[1:65])  # <<
    nisa.dma_copy(dst=out, src=u)
    return out


@case(data(128, 64), grid=2)
def no_barrier(x):
    """Each core reads what the other writes."""
    out, s = hbm((128, 64)), hbm((128, 64))
    c = nl.program_id(0)
    t = sb((64, 64))
    nisa.dma_copy(dst=t, src=x[c * 64:c * 64 + 64])
    nisa.dma_copy(dst=s[c * 64:c * 64 + 64], src=t)  # <<
    u = sb((64, 64))
    nisa.dma_copy(dst=u, src=s[(1 - c) * 64:(1 - c) * 64 + 64])  # <<
    nisa.dma_copy(dst=out[c * 64:c * 64 + 64], src=u)
    return out


@case(data(128, 64), grid=2)
def both_write_the_middle(x):
    """Halves that overlap by one row."""
    out = hbm((128, 64))
    c = nl.program_id(0)
    n = 65
    t = sb((n, 64))
    nisa.dma_copy(dst=t, src=x[c * 63:c * 63 + n])
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(c))
    nisa.dma_copy(dst=out[c * 63:c * 63 + n], src=t)  # <<
    return out


@case(np.array([[3, 1, 200, 2]], np.int32), data(128, 64))
def row_from_data(idx, x):
    """An index from data past the tensor."""
    out = hbm((4, 64))
    i = sb((1, 4), nl.int32)
    nisa.dma_copy(dst=i, src=idx)
    for k in range(4):
        r = nisa.register_alloc(0)
        nisa.register_load(r, i[0:1, k:k + 1])
        t = sb((1, 64))
        row = x.ap(pattern=[[64, 1], [1, 64]], scalar_offset=r, indirect_dim=0)
        nisa.dma_copy(dst=t, src=row)  # <<
        nisa.dma_copy(dst=out[k:k + 1], src=t)
    return out


@case(data(64, 128))
def reduced_twice(x):
    """Bn_aggr over three chunks of which two have stats."""
    out = hbm((64, 2))
    t = sb((64, 128))
    nisa.dma_copy(dst=t, src=x)
    stats = sb((64, 3, 6))
    for k in range(2):
        nisa.bn_stats(dst=stats[:, k], data=t[:, k * 42:k * 42 + 42])
    mv = sb((64, 2))
    nisa.bn_aggr(dst=mv, data=stats)  # <<
    nisa.dma_copy(dst=out, src=mv)
    return out


@case(data(64, 128))
def predicate_leaves_holes(x):
    """Copied only where x > 0, stored whole."""
    out = hbm(x.shape)
    t = sb(x.shape)
    nisa.dma_copy(dst=t, src=x)
    p = sb(x.shape, nl.uint8)
    nisa.tensor_scalar(dst=p, data=t, op0=nl.greater, operand0=0.0)
    r = sb(x.shape)
    nisa.tensor_copy_predicated(dst=r, src=t, predicate=p)  # <<
    nisa.dma_copy(dst=out, src=r)  # <<
    return out


@case(data(100, 128))
def transposed_with_rest(x):
    """100 rows are loaded, 128 transposed, and all columns stored."""
    out = hbm((128, 128))
    t = sb((128, 128))
    nisa.dma_copy(dst=t[0:100], src=x)
    p = nl.ndarray((128, 128), dtype=f32, buffer=nl.psum)
    nisa.nc_transpose(dst=p, data=t)  # <<
    r = sb((128, 128))
    nisa.tensor_copy(dst=r, src=p)
    nisa.dma_copy(dst=out, src=r)  # <<
    return out


@case(data(64, 128))
def scan_from_nothing(x):
    """The initial value of a scan was never set."""
    out = hbm(x.shape)
    t, one, r = sb(x.shape), sb(x.shape), sb(x.shape)
    nisa.dma_copy(dst=t, src=x)
    nisa.memset(dst=one, value=1.0)
    init = sb((64, 1))
    ops = {"op0": nl.multiply, "op1": nl.add}
    nisa.tensor_tensor_scan(dst=r, data0=one, data1=t, initial=init, **ops)  # <<
    nisa.dma_copy(dst=out, src=r)
    return out


@case(data(128, 100))
def off_by_one_rows(x):
    """I <= n in place of i < n."""
    out = hbm((129, 100))
    for i in range(0, 129, 43):
        t = sb((43, 100))
        nisa.dma_copy(dst=t, src=x[i:i + 43])  # <<
        nisa.dma_copy(dst=out[i:i + 43], src=t)
    return out


@case(data(64, 128) * 1000)
def too_large_for_int8(x):
    out = hbm(x.shape, nl.int8)
    t, q = sb(x.shape), sb(x.shape, nl.int8)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_copy(dst=q, src=t)  # <<
    nisa.dma_copy(dst=out, src=q)
    return out


@case(data(512, 64))
def rows_of_the_loop(x):
    """A loop at run time that goes one round too far."""
    out = hbm(x.shape)
    for i in nl.dynamic_range(5):
        t = sb((128, 64))
        nisa.dma_copy(dst=t, src=x[i * 128:i * 128 + 128])  # <<
        nisa.dma_copy(dst=out[i * 128:i * 128 + 128], src=t)
    return out


@case(data(128, 64), data(128, 64))
def second_input_unused(x, y):
    """Y is loaded, x used twice."""
    out = hbm(x.shape)
    a, b = sb(x.shape), sb(x.shape)
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)  # <<
    nisa.tensor_tensor(dst=a, data1=a, data2=a, op=nl.add)
    nisa.dma_copy(dst=out, src=a)
    return out


@case(data(128, 256), data(256, 128))
def first_product_not_reset(a, b):
    """Accumulate=True from the first product on."""
    out = hbm((128, 128))
    p = nl.ndarray((128, 128), dtype=f32, buffer=nl.psum)
    for k in range(2):
        ta, tb = sb((128, 128)), sb((128, 128))
        nisa.dma_copy(dst=ta, src=a[:, k * 128:k * 128 + 128])
        nisa.dma_copy(dst=tb, src=b[k * 128:k * 128 + 128])
        nisa.nc_matmul(dst=p, stationary=ta, moving=tb, accumulate=True)  # <<
    r = sb((128, 128))
    nisa.tensor_copy(dst=r, src=p)
    nisa.dma_copy(dst=out, src=r)
    return out


@case(data(128, 8), data(128, 64))
def stale_rows_of_a_smaller_block(s, x):
    """The second block has 60 rows: the other 68 are of the first."""
    out = hbm((256, 64))
    t = sb((128, 64))
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out[0:128], src=t)
    u = sb((128, 64))
    nisa.dma_copy(dst=u[0:60], src=x[0:60])
    nisa.dma_copy(dst=out[128:256], src=u)  # <<
    return out


@case(data(64, 128))
def reduce_result_of_another_tile(x):
    """Sums[:, 1] is read, sums[:, 0] written."""
    out = hbm(x.shape)
    t, e, sums = sb(x.shape), sb(x.shape), sb((64, 2))
    nisa.dma_copy(dst=t, src=x)
    nisa.activation_reduce(dst=e, op=nl.exp, data=t, reduce_op=nl.add, reduce_res=sums[:, 0:1])
    inv = sb((64, 1))
    nisa.reciprocal(dst=inv, data=sums[:, 1:2])  # <<
    nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=inv)
    nisa.dma_copy(dst=out, src=e)
    return out


@case(data(128, 64))
def shuffle_beyond(x):
    """32 partitions are loaded, the shuffle takes from the next group."""
    out = hbm((64, 64))
    t, r = sb((64, 64)), sb((64, 64))
    nisa.dma_copy(dst=t[0:32], src=x[0:32])
    nisa.nc_stream_shuffle(dst=r, src=t, shuffle_mask=list(range(32)))  # <<
    nisa.dma_copy(dst=out, src=r)
    return out


class Mistakes(KernelCase):
    def test_each_is_told_at_its_line(self):
        self.assertEqual(len(MISTAKES), 20)
        for function, args, grid in MISTAKES:
            with self.subTest(function.__name__):
                lines, start = inspect.getsourcelines(function)
                marked = {start + i for i, line in enumerate(lines) if "# <<" in line}
                kernel = nki.jit(function) if grid is None else nki.jit(function)[grid]
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    try:
                        told = {f.line for f in kernel.check(*args, schedules=2)}
                    except Exception as error:
                        told = set(map(int, re.findall(r"test_mistakes\.py:(\d+)", str(error))))
                told |= {w.lineno for w in warned if "nothing reads it" in str(w.message)}
                self.assertTrue(told & marked, (told, marked))
                self.assertTrue(told <= marked or grid, (told, marked))


if __name__ == "__main__":
    unittest.main()
