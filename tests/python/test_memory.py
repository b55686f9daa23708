"""Memory that kernels place or begin themselves: zeros in PSUM, tiles at addresses."""
import functools
import unittest
import warnings

import neuronxcc.nki as old
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as oisa
import numpy as np
from helper import KernelCase, data

import nki
import nki.isa as nisa
import nki.language as nl
import soma


def summed(make, add=lambda k: True, columns=(slice(0, 100),), loop=range):
    """A kernel that sums in what make(shape) gives, by matmuls with accumulate=add(k)."""
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((64, 100), nl.float32, buffer=nl.shared_hbm)
        s = make((64, 100))
        p = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        q = nl.ndarray((128, 100), nl.float32, buffer=nl.sbuf)
        for k in loop(2):
            nisa.dma_copy(dst=p, src=x[nl.ds(k * 128, 128), :])
            nisa.dma_copy(dst=q, src=y[nl.ds(k * 128, 128), :])
            for c in columns:
                nisa.nc_matmul(s[:, c], p, q[:, c], accumulate=add(k))
        t = nl.ndarray((64, 100), nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=t, src=s)
        nisa.dma_copy(dst=out, src=t)
        return out
    return kernel


class ZerosInPsum(KernelCase):
    def zeros(self, shape):
        return nl.zeros(shape, nl.float32, buffer=nl.psum)

    def test_accumulate_true_adds_to_zeros(self):
        a, b = data(256, 64), data(256, 100)
        for make in (self.zeros, lambda s: nl.full(s, 0.0, nl.float32, buffer=nl.psum)):
            kernel = summed(make)
            self.same(kernel(a, b), a.T @ b, 1e-4, 1e-4)
            self.assertNotIn("memset", kernel.source(a, b))
            self.clean(kernel, a, b)
            self.same(summed(make, lambda k: None)(a, b), a.T @ b, 1e-4, 1e-4)
            self.same(summed(make, lambda k: k > 0)(a, b), a.T @ b, 1e-4, 1e-4)

    def test_accumulate_true_adds_to_what_other_columns_overlap(self):
        a, b = data(256, 64), data(256, 100)
        want = a.T @ b
        want[:, 40:60] *= 2
        kernel = summed(self.zeros, columns=(slice(0, 60), slice(40, 100)))
        self.same(kernel(a, b), want, 1e-4, 1e-4)

    def test_what_matmuls_leave_is_zero_whatever_its_partition_and_type(self):
        for rows, dtype in ((10, nl.float32), (64, nl.float32), (64, nl.bfloat16)):
            @nki.jit(platform_target="trn3")
            def kernel(x, y):
                out = nl.ndarray((64, 100), dtype, buffer=nl.shared_hbm)
                s = nl.zeros((64, 100), nl.float32, buffer=nl.psum).view(dtype)
                nisa.nc_matmul(s[0:rows, 20:60], nl.load(x)[:, 0:rows], nl.load(y)[:, 20:60],
                               accumulate=True)
                t = nl.ndarray((64, 100), dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=t, src=s[0:64, 0:100])
                nisa.dma_copy(dst=out, src=t)
                return out
            a, b = np.round(data(128, 64)), np.round(data(128, 100))
            want = np.zeros((64, 100))
            want[:rows, 20:60] = (a.T @ b)[:rows, 20:60]
            self.same(kernel(a, b).astype(np.float32), want, 1e-6, 1e-4)

    def test_accumulate_true_in_a_loop_at_run_time(self):
        a, b = data(256, 64), data(256, 100)
        for add in (True, None):
            kernel = summed(self.zeros, lambda k: add, loop=nl.dynamic_range)
            self.same(kernel(a, b), a.T @ b, 1e-4, 1e-4)

    def test_adding_to_ones_and_to_nothing(self):
        a, b = data(256, 64), data(256, 100)
        ones = summed(lambda s: nl.full(s, 1.0, nl.float32, buffer=nl.psum))
        self.same(ones(a, b), 1 + a.T @ b, 1e-4, 1e-4)
        with self.assertRaisesRegex(soma.KernelError, "nc_matmul dst: reads byte 0 .*, which "
                                                      "nothing has written"):
            summed(lambda s: nl.ndarray(s, nl.float32, buffer=nl.psum))(a, b)

    def test_what_a_mask_leaves_out_and_what_is_written_in_part_is_zero(self):
        @old.jit
        def masked(x):
            y = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
            i, j = nl.arange(128)[:, None], nl.arange(128)[None, :]
            a = nl.load(x)
            for g in nl.affine_range(2):
                s = nl.ndarray((nl.par_dim(128), 128), nl.float32, buffer=nl.psum)
                s += oisa.nc_matmul(a, a, mask=(g * 128 < 128))
                t = nl.copy(s)
                nl.store(y[i, j], value=t, mask=(g * 128 < 128))
            return y

        @nki.jit
        def part(x):
            out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
            t = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            p = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            u = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            nisa.tensor_copy(p[0:64], t[0:64])
            nisa.tensor_copy(u, p)
            nisa.dma_copy(dst=out, src=u)
            return out
        x = data(128, 128)
        with self.assertWarnsRegex(UserWarning, "tile s .* it reads zeros here"):
            self.same(masked(x), x.T @ x, 1e-4, 1e-4)
        with self.assertWarnsRegex(UserWarning, r"tile p \(element \[64, 0\]\).* reads zeros here"):
            got = part(x)
        self.same(got, np.concatenate((x[:64], 0 * x[64:])), 0, 0)


def through(shape=(128, 256), **places):
    """A kernel with tiles at addresses: body(tiles, argument, out) fills in what it does."""
    def of(body):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tiles = {name: nl.ndarray(p[2] if len(p) > 2 else shape, p[3] if len(p) > 3 else
                                      x.dtype, buffer=nl.sbuf, address=p[:2], name=name)
                     for name, p in places.items()}
            body(x, out, **tiles)
            return out
        return kernel
    return of


class Addresses(KernelCase):
    def test_what_one_tile_writes_another_reads(self):
        @through(t=(0, 0), u=(0, 0))
        def kernel(x, out, t, u):
            nisa.dma_copy(dst=t, src=x)
            nisa.tensor_scalar(dst=u, data=u, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out, src=u)
        x = data(128, 256)
        self.same(kernel(x), 2 * x, 0, 0)
        self.clean(kernel, x)

    def test_halves_and_a_whole(self):
        @through(t=(0, 64), low=(0, 64, (128, 128)), high=(0, 576, (128, 128)))
        def joined(x, out, t, low, high):
            nisa.dma_copy(dst=low, src=x[:, 0:128])
            nisa.dma_copy(dst=high, src=x[:, 128:256])
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out, src=t)

        @through(t=(0, 64), low=(0, 64, (64, 128)))
        def cleared(x, out, t, low):
            nisa.dma_copy(dst=t, src=x)
            nisa.memset(dst=low, value=0.0)
            nisa.dma_copy(dst=out, src=t)
        x = data(128, 256)
        self.same(joined(x), x + 1, 0, 1e-6)
        self.clean(joined, x)
        want = x.copy()
        want[:64, :128] = 0
        self.same(cleared(x), want, 0, 0)
        self.clean(cleared, x)

    def test_in_another_type_and_in_psum(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
            t = nl.ndarray(x.shape, nl.float32, buffer=nl.psum, address=(0, 2048))
            u = nl.ndarray(x.shape, nl.int32, buffer=nl.psum, address=(0, 2048))
            s = nl.ndarray(x.shape, nl.int32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=t, src=nl.load(x))
            nisa.tensor_copy(dst=s, src=u)
            nisa.dma_copy(dst=out, src=s)
            return out
        x = data(64, 100)
        np.testing.assert_array_equal(kernel(x), x.view(np.int32))
        self.clean(kernel, x)

    def test_no_other_tile_comes_between(self):
        """Tiles without an address fill the memory meanwhile."""
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
            nisa.dma_copy(dst=t, src=x)
            for i in range(3):
                a, b = nl.ndarray((128, 20000)), nl.ndarray((128, 20000))
                nisa.memset(dst=a, value=float(i))
                nisa.tensor_copy(dst=b, src=a)
            u = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
            nisa.dma_copy(dst=out, src=u)
            return out
        x = data(128, 256)
        self.same(kernel(x), x, 0, 0)

    def test_in_a_loop_at_run_time(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 128))
            u = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 128))
            nisa.dma_copy(dst=t, src=x)
            for i in nl.dynamic_range(3):
                nisa.tensor_scalar(dst=u, data=u, op0=nl.add, operand0=1.0)
                nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out, src=u)
            return out
        x = np.round(data(64, 16))
        self.same(kernel(x), 8 * x + 14, 0, 0)
        self.clean(kernel, x)

    def test_what_nothing_has_written_is_zero_and_the_rest_stays(self):
        @through(t=(0, 0), u=(0, 512))
        def kernel(x, out, t, u):
            nisa.dma_copy(dst=t, src=x)
            nisa.dma_copy(dst=out, src=u)
        x = data(128, 256)
        with self.assertWarnsRegex(UserWarning, r"tile u \(element \[0, 128\]\).* reads zeros"):
            got = kernel(x)
        self.same(got, np.concatenate((x[:, 128:], np.zeros((128, 128))), 1), 0, 0)

    def test_a_sum_begins_anew_in_each_tile(self):
        @nki.jit
        def kernel(x, y):
            out = nl.ndarray((2, 64, 100), nl.float32, buffer=nl.shared_hbm)
            p, q = nl.load(x), nl.load(y)
            for i in range(2):
                s = nl.ndarray((64, 100), nl.float32, buffer=nl.psum, address=(0, 2048))
                for k in range(i + 1):
                    nisa.nc_matmul(s, p, q)
                nl.store(out[i], nl.copy(s))
            return out
        a, b = data(128, 64), data(128, 100)
        self.same(kernel(a, b), np.stack([a.T @ b, 2 * a.T @ b]), 1e-4, 1e-4)

    def test_overwritten_by_a_neighbour(self):
        @through(t=(0, 0), u=(0, 512))
        def kernel(x, out, t, u):
            nisa.dma_copy(dst=t, src=x)
            nisa.memset(dst=u, value=0.0)
            nisa.dma_copy(dst=out, src=t)
        x = data(128, 256)
        self.same(kernel(x), np.concatenate((x[:, :128], np.zeros((128, 128))), 1), 0, 0)
        self.clean(kernel, x)  # they are one memory

    def test_random_tiles_and_bytes(self):
        for seed in range(60):
            self.random_places(seed)

    def random_places(self, seed):
        rng = np.random.default_rng(seed)
        types = {"float32": nl.float32, "int32": nl.int32, "uint16": nl.uint16, "uint8": nl.uint8}
        tiles = []
        for _ in range(int(rng.integers(2, 7))):
            name = str(rng.choice(list(types)))
            size = np.dtype(name).itemsize
            n, at = int(rng.integers(1, 120)), int(rng.integers(0, 300)) // size * size
            part, parts = (int(rng.choice(x)) for x in ((0, 32, 64), (1, 20, 32, 64)))
            tiles.append((name, part, min(parts, part or 64), at, max(n // size, 1)))
        memory = np.zeros((128, 1024), np.uint8)
        steps = []
        for _ in range(int(rng.integers(4, 14))):
            i = int(rng.integers(len(tiles)))
            name, part, parts, at, n = tiles[i]
            lo = int(rng.integers(0, n))
            hi = int(rng.integers(lo + 1, n + 1))
            what = str(rng.choice(("set", "get", "add")))
            steps.append((i, lo, hi, what, int(rng.integers(100))))
        want, source = [], data(1, 1)

        @nki.jit
        def kernel(x):
            made = [nl.ndarray((parts, n), types[name], buffer=nl.sbuf, address=(part, at))
                    for name, part, parts, at, n in tiles]
            outs = []
            for i, lo, hi, what, value in steps:
                view = made[i][:, lo:hi]
                other = nl.ndarray(view.shape, view.dtype, buffer=nl.sbuf)
                nisa.memset(dst=other, value=value)
                if what == "set":
                    nisa.tensor_copy(dst=view, src=other)
                elif what == "add":
                    nisa.tensor_scalar(dst=view, data=view, op0=nl.bitwise_xor, operand0=value) \
                        if view.dtype != nl.float32 else nisa.tensor_copy(dst=view, src=other)
                else:
                    out = nl.ndarray(view.shape, view.dtype, buffer=nl.shared_hbm)
                    nisa.dma_copy(dst=out, src=view)
                    outs.append(out)
            last = nl.ndarray(made[0].shape, made[0].dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=last, src=made[0])
            return outs + [last]

        def block(i, lo=0, hi=None):
            name, part, parts, at, n = tiles[i]
            size = np.dtype(name).itemsize
            hi = n if hi is None else hi
            return memory[part:part + parts, at + lo * size:at + hi * size]
        for i, lo, hi, what, value in steps + [(0, 0, None, "get", 0)]:
            there, dtype = block(i, lo, hi), np.dtype(tiles[i][0])
            values = np.ascontiguousarray(there).view(dtype)
            if what == "get":
                want.append(values.copy())
            elif what == "add" and dtype.kind != "f":
                there[...] = (values ^ dtype.type(value)).view(np.uint8)
            else:
                there[...] = np.full(values.shape, value, dtype).view(np.uint8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = kernel(source)
        for g, w in zip(got, want):
            np.testing.assert_array_equal(np.asarray(g).view(np.uint8), w.view(np.uint8), str(seed))

    def test_addresses_are_checked(self):
        for address, text in (((0, -4), "is -4: it must be 0 to"), ((-1, 0), "is -1: it must be"),
                              ((0, 1 << 32), "is 4294967296"), ((1 << 32, 64), "is 4294967296"),
                              ((0, (1 << 64) + 4), "is 18446744073709551620"), ((128, 0), "is 128"),
                              ((0, 2.5), "is 2.5: it must be a whole number"), ((0,), "must be"),
                              (7, "address=7: it must be"), ((None, 0), "is None"),
                              ((0, 3), "float32 needs a multiple of 4"),
                              ((64, 0), "128 partitions from 64 on"),
                              ((0, 1 << 20), "bytes 1048576..1049599, but")):
            kernel = through(t=(0, 0))(lambda x, out, t: nl.ndarray(
                (128, 256), nl.float32, buffer=nl.sbuf, address=address) + 1)
            with self.assertRaises(soma.KernelError) as caught:
                kernel(data(128, 256))
            self.assertRegex(str(caught.exception), r"test_memory.py:\d+: .*")
            self.assertIn(text, str(caught.exception))

    def test_allocators(self):
        def made(buffer, shape=(2, nl.par_dim(64), 16)):
            @old.jit
            def kernel(x):
                out = nl.ndarray((2, nl.par_dim(64), 16), x.dtype, buffer=nl.shared_hbm)
                t = nl.ndarray(shape, x.dtype, buffer=buffer)
                for i in range(2):
                    t[i] = nl.copy(nl.load(x[i]))
                for i in range(2):
                    nl.store(out[i], t[i])
                return out
            return kernel
        x = data(2, 64, 16)

        def named(bank_map, idx, pdim_size, fdim_size):
            assert pdim_size == 64 and fdim_size == 64
            return bank_map[idx], 0, 0
        banks = functools.partial(named, bank_map={(0,): 1, (1,): 5})
        for buffer in (ncc.psum.alloc(banks), ncc.sbuf.alloc(lambda i, p, f: (0, i[0] * f)),
                       ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=(2,))):
            self.same(made(buffer)(x), x, 0, 0)
        one = made(ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=(1,)))
        self.same(one(x), np.stack([x[1], x[1]]), 0, 0)
        self.assertEqual({f.check for f in one.check(x)}, {"uninit"})
        for buffer, text in (
                (ncc.sbuf.mod_alloc(base_addr=1 << 32), "4294967296"),
                (ncc.sbuf.mod_alloc(base_addr=-64), "is -64"),
                (ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(0,)), "is 0: it must be 1 to"),
                (ncc.psum.mod_alloc(base_bank=8), "the bank .* is 8: it must be 0 to 7"),
                (ncc.psum.alloc(lambda i, p, f: (0, 0)), r"gives \(bank, partition, byte\)"),
                (ncc.sbuf.alloc(lambda i, p, f: (0, 2.5)), "is 2.5: it must be a whole number")):
            with self.assertRaisesRegex(soma.KernelError, text):
                made(buffer)(x)


if __name__ == "__main__":
    unittest.main()
