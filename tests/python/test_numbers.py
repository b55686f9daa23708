"""Numbers that do not fit: each place that takes a whole number refuses them with the value, at the
line. None is cut to 32 or 64 bits."""
import linecache
import unittest
import warnings

import numpy as np

import nki
import soma

KERNEL = """import nki, nki.language as nl, nki.isa as nisa
import neuronxcc.nki.compiler as ncc
def tile(shape=(128, 64), dtype=nl.float32, **places):
    x = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, **places)
    nisa.memset(dst=x, value=0)
    return x
def kernel(a):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    d, s, p = tile(), tile(), nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    i32, u8, i16, u32 = (tile(dtype=t) for t in (nl.int32, nl.uint8, nl.int16, nl.uint32))
    reg = nisa.register_alloc(0)
    row, column = nl.arange(128)[:, None], nl.arange(64)[None, :]
    %s
    nisa.dma_copy(dst=out, src=d)
    return out
"""

# Where N is a number of 32 bits, or less.
WORDS = """
tile((N, 4))
tile((4, N))
tile((2, 2, N))
tile((nl.par_dim(N), 4))
nl.full((4, N), 1.0)
nl.zeros((2, N, 4), nl.float32, buffer=nl.sbuf)
nl.rand((4, N))
tile((4, 4), address=(0, N))
tile((4, 4), address=(N, 0))
nl.ndarray((2, nl.par_dim(4), 4), nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=N))
nl.ndarray((2, nl.par_dim(4), 4), nl.float32, buffer=ncc.psum.mod_alloc(base_bank=N))
nl.ndarray((2, nl.par_dim(4), 4), nl.float32, buffer=ncc.psum.alloc(lambda i, p, f: (0, 0, N)))
nl.random_seed(N)
nisa.memset(dst=i32, value=N)
nisa.memset(dst=u8, value=N)
nisa.memset(dst=i16, value=N)
nisa.memset(i32[:, 0:4], N)
nisa.tensor_copy(dst=d[:, N:N + 8], src=s[:, N:N + 8])
nisa.tensor_copy(dst=d[:, nl.ds(N, 8)], src=s[:, 0:8])
nisa.tensor_copy(dst=d[:, nl.ds(0, N)], src=s)
nisa.tensor_copy(dst=d[nl.ds(N, 8), :], src=s[0:8])
nisa.tensor_copy(dst=d[:, N], src=s[:, 0])
nisa.dma_copy(dst=d, src=a[nl.ds(N, 128), :])
nisa.dma_copy(dst=d, src=a.ap([[64, 128], [1, 64]], offset=N))
nisa.dma_copy(dst=d, src=a.ap([[64, N], [1, 64]]))
nisa.dma_copy(dst=d, src=a.ap([[N, 128], [1, 64]]))
nisa.dma_copy(dst=d, src=a.ap([[64, 128], [N, 64]]))
nisa.tensor_copy(dst=d, src=s.ap([[64, 128], [1, 64]], offset=N))
nisa.tensor_copy(dst=d[row, column + N], src=s)
nisa.tensor_copy(dst=d[row, column * N], src=s)
nisa.tensor_copy(dst=d, src=s.reshape((128, N)))
s.select(1, N)
s.select(N, 1)
s.slice(N, 0, 1)
nl.expand_dims(s, N)
for i in nl.dynamic_range(N): nisa.tensor_copy(dst=d, src=s)
for i in nl.dynamic_range(N, 2): nisa.tensor_copy(dst=d, src=s)
for i in nl.dynamic_range(0, N, 2): nisa.tensor_copy(dst=d, src=s)
for i in nl.dynamic_range(0, 4, N): nisa.tensor_copy(dst=d, src=s)
nl.fori_loop(0, N, lambda i: nisa.tensor_copy(dst=d, src=s))
nisa.register_alloc(N)
nisa.register_move(reg, N)
nisa.register_move(reg, reg + N)
nisa.register_move(reg, reg * N)
nisa.register_store(i32[0:1, 0:1], N)
nisa.iota(i32, [[1, 64]], offset=N)
nisa.iota(i32, [[1, 64]], channel_multiplier=N)
nisa.iota(i32, [[N, 64]])
nisa.iota(i32, [[1, N]])
nisa.affine_select(d, [[1, 64]], N, s, 0.0)
nisa.affine_select(d, [[1, 64]], 1, s, 0.0, offset=N)
nisa.affine_select(d, [[N, 64]], 1, s, 0.0)
nisa.tensor_reduce(dst=d[:, 0:1], op=nl.add, data=s, axis=N)
nisa.tensor_scalar(dst=u32, data=u32, op0=nl.left_shift, operand0=N << 1)
nisa.nc_matmul(p, s, d, tile_position=(N, 0), tile_size=(128, 128))
nisa.nc_matmul(p, s, d, tile_position=(0, 0), tile_size=(N, 128))
nisa.nc_stream_shuffle(d, s, [N] * 32)
nisa.dma_copy(dst=d, src=s, priority=N)
nisa.local_gather(d, s, tile((128, 4), nl.uint16), num_elem_per_idx=N)
nisa.nonzero_with_count(tile((128, 65), nl.int32), i32, index_offset=N)
nisa.nonzero_with_count(tile((128, 65), nl.int32), i32, padding_val=N)
nisa.topk(d, u32, s, N << 1)
nl.program_id(N)
nl.num_programs(N)
"""

# Where it has 64.
LONG = """
nl.store(nl.ndarray((N, 64), nl.float32, buffer=nl.shared_hbm)[0:128], d)
nl.store(nl.ndarray((128, N), nl.float32, buffer=nl.hbm)[:, 0:64], d)
nisa.tensor_copy(dst=d[:, 0:1], src=nl.broadcast_to(s[:, 0:1], (128, N)))
nisa.tensor_copy(dst=d[:, nl.ds(reg + N, 8)], src=s[:, 0:8])
nisa.dma_copy(dst=d, src=a[nl.ds(reg * N, 128), :])
"""


class Numbers(unittest.TestCase):
    def refused(self, line, value, said=True):
        source = KERNEL % line.replace("N", "(%d)" % value)
        linecache.cache["case.py"] = (len(source), None, source.splitlines(True), "case.py")
        names = {}
        exec(compile(source, "case.py", "exec"), names)
        with self.assertRaises(soma.KernelError) as caught:
            nki.jit(names["kernel"])(np.zeros((256, 64), np.float32))
        text = str(caught.exception)
        self.assertRegex(text, "^case.py:(13|4): ")
        if said:
            shown = [str(n) for n in (value, value << 1, value + 8, value + 63, value * 63,
                                      value * 4, value * 8)]  # elements and bytes
            self.assertTrue(any(n in text for n in shown), text)

    def test_each_place_refuses_what_does_not_fit(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for line in WORDS.strip().split("\n"):
                for value in (1 << 31, (1 << 32) + 8, (1 << 64) + 5, -(1 << 63) - 1):
                    with self.subTest(line, value=value):
                        self.refused(line, value, value > 0 and ".ap(" not in line)
            for line in LONG.strip().split("\n"):
                for value in (1 << 63, (1 << 64) + 5):
                    with self.subTest(line, value=value):
                        self.refused(line, value, False)

    def test_machines_and_runs(self):
        m = soma.Machine("trn2")
        p = m.assemble("        target trn2\ny       tensor float32[r10 <= 1024, 64], output\n"
                       "        section sync\n        halt\n", "a.s")
        self.assertEqual(m.run(p, {}, rows={"y": 5}).shape("y"), (5, 64))
        for n in (1025, -1, (1 << 32) + 5, (1 << 64) + 5):
            with self.assertRaisesRegex(ValueError if n > 1 << 63 else soma.SomaError, str(n)):
                m.run(p, {}, rows={"y": n})
        for option in ("max_instructions", "max_time", "max_hbm_bytes", "rounding_seed"):
            for n in (-1, 1 << 64, (1 << 64) + 5):
                with self.assertRaisesRegex(ValueError, "%s=%d" % (option, n)):
                    soma.Machine("trn2", **{option: n})
        for n in (-1, (1 << 32) + 1):
            with self.assertRaisesRegex(ValueError, "threads=%d" % n):
                soma.Machine("trn2", threads=n)


if __name__ == "__main__":
    unittest.main()
