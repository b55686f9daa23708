"""nki.isa: each call in the new style against NumPy, and in the old style that it gives the
same."""
import unittest

import numpy as np
from helper import KernelCase, data, of_tiles, rng

import neuronxcc.nki as old
import nki
import nki.isa as nisa
import nki.language as nl
import soma


def into(call, shape=None, dtype=nl.float32, memory=None):
    """A kernel in which call(dst, tiles...) writes a new tile, which is stored."""
    @nki.jit
    def kernel(*arrays):
        size = shape or arrays[0].shape
        dst = nl.ndarray(size, dtype, buffer=memory or nl.sbuf)
        call(dst, *[nl.load(a) for a in arrays])
        out = nl.ndarray(size, dtype, buffer=nl.shared_hbm)
        nl.store(out, dst)
        return out
    return kernel


class Elementwise(KernelCase):
    def both(self, new, old, arrays, want, shape=None, dtype=nl.float32, rtol=1e-5, atol=1e-6):
        self.same(into(new, shape, dtype)(*arrays), want, rtol, atol)
        self.same(of_tiles(old, shape, dtype)(*arrays), want, rtol, atol)
        self.clean(into(new, shape, dtype), *arrays)

    def test_tensor_tensor(self):
        a, b = data(128, 40), data(128, 40)
        self.both(lambda d, x, y: nisa.tensor_tensor(dst=d, data1=x, data2=y, op=nl.subtract),
                  lambda x, y: nisa.tensor_tensor(x, y, op=np.subtract), (a, b), a - b)
        self.both(lambda d, x, y: nisa.tensor_tensor(d, x, y, nl.maximum,
                                                     engine=nisa.engine.vector),
                  lambda x, y: nisa.tensor_tensor(x, y, nl.maximum), (a, b), np.maximum(a, b))

    def test_tensor_scalar(self):
        a, v = data(128, 40), data(128, 1)
        self.both(lambda d, x, c: nisa.tensor_scalar(d, x, nl.multiply, c, op1=nl.add,
                                                     operand1=2.0),
                  lambda x, c: nisa.tensor_scalar(x, np.multiply, c, op1=np.add, operand1=2.0),
                  (a, v), a * v + np.float32(2))
        self.both(lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.subtract, operand0=1.0,
                                                  reverse0=True),
                  lambda x: nisa.tensor_scalar(x, nl.subtract, 1.0, True), (a,), 1 - a)
        i = rng.integers(0, 1000, (16, 8)).astype(np.int32)
        self.both(lambda d, x: nisa.tensor_scalar(dst=d, data=x, op0=nl.left_shift, operand0=3),
                  lambda x: nisa.tensor_scalar(data=x, op0=nl.left_shift, operand0=3), (i,), i << 3,
                  dtype=nl.int32)

    def test_a_destination_whose_elements_coincide(self):
        a = data(128, 8)
        self.same(into(lambda d, x: nisa.activation(
            dst=d.ap([[1, 128], [0, 8]]), op=nl.square, data=x), (128, 1))(a), a[:, 7:] ** 2)
        self.same(into(lambda d, x: nisa.tensor_scalar(
            dst=d.ap([[2, 128], [0, 4], [1, 2]]), data=x.reshape((128, 4, 2)), op0=nl.multiply,
            operand0=2.0), (128, 2))(a), a[:, 6:] * 2)

    def test_scalar_tensor_tensor(self):
        a, b = data(128, 40), data(128, 40)
        self.both(lambda d, x, y: nisa.scalar_tensor_tensor(
            dst=d, data=x, op0=nl.multiply, operand0=3.0, op1=nl.subtract, operand1=y,
            reverse1=True),
            lambda x, y: nisa.scalar_tensor_tensor(
                data=x, op0=np.multiply, operand0=3.0, op1=np.subtract, operand1=y, reverse1=True),
            (a, b), b - a * 3)

    def test_activation(self):
        a, v, w = data(128, 40), data(128, 1), data(128, 1)
        want = np.exp(a * v + w)
        self.both(lambda d, x, s, b: nisa.activation(dst=d, op=nl.exp, data=x, scale=s, bias=b),
                  lambda x, s, b: nisa.activation(np.exp, x, scale=s, bias=b), (a, v, w), want)

    def test_activation_sums_rows(self):
        a = data(128, 40)

        def new(d, x):
            rest = nl.ndarray(x.shape, nl.float32)
            for i, cmd in enumerate((nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce)):
                nisa.activation(dst=rest, op=nl.square, data=x, reduce_op=nl.add,
                                reduce_res=d if i else None, reduce_cmd=cmd)
        self.same(into(new, (128, 1))(a), 2 * (a * a).sum(1, keepdims=True))

        def old(x):
            total = nl.ndarray((128, 1), nl.float32)
            nisa.activation_reduce(np.square, x, reduce_op=np.add, reduce_res=total)[...]
            return total
        self.same(of_tiles(old, (128, 1))(a), (a * a).sum(1, keepdims=True))

    def test_tensor_scalar_reduce(self):
        a = data(128, 40)

        def new(d, x):
            rest = nl.ndarray(x.shape, nl.float32)
            nisa.tensor_scalar_reduce(dst=rest, data=x, op0=nl.multiply, operand0=2.0,
                                      reduce_op=nl.maximum, reduce_res=d)
        self.same(into(new, (128, 1))(a), 2 * a.max(1, keepdims=True))

    def test_scans(self):
        a, b, v = data(128, 30, low=0.5, high=1), data(128, 30), data(128, 1)
        want = np.zeros_like(a)
        state = v[:, 0]
        for i in range(30):
            state = a[:, i] * state + b[:, i]
            want[:, i] = state
        self.both(lambda d, x, y, s: nisa.tensor_tensor_scan(
            dst=d, data0=x, data1=y, initial=s, op0=nl.multiply, op1=nl.add),
            lambda x, y, s: nisa.tensor_tensor_scan(x, y, initial=s, op0=np.multiply, op1=np.add),
            (a, b, v), want, atol=1e-5)
        self.same(into(lambda d, x: nisa.tensor_scalar_cumulative(
            dst=d, src=x, op0=nl.multiply, op1=nl.add, imm0=2.0))(b), np.cumsum(2 * b, 1),
                  1e-4, 1e-5)

    def test_reciprocal_copies_and_fills(self):
        a = data(128, 40, low=1)
        self.both(lambda d, x: nisa.reciprocal(dst=d, data=x), nisa.reciprocal, (a,), 1 / a)
        self.both(lambda d, x: nisa.tensor_copy(d, x, engine=nisa.engine.scalar),
                  lambda x: nisa.tensor_copy(x, engine=nisa.vector_engine), (a,), a)
        self.same(into(lambda d, x: nisa.memset(d, 2.5))(a), np.full_like(a, 2.5))
        self.same(of_tiles(lambda x: nisa.memset((128, 40), value=3, dtype=nl.float32))(a),
                  np.full_like(a, 3))

    def test_predicated_copies(self):
        a, b = data(128, 40), data(128, 40)
        p = (data(128, 40) > 0).astype(np.uint8)

        def new(d, x, y, q):
            nisa.tensor_copy(d, y)
            nisa.tensor_copy_predicated(dst=d, src=x, predicate=q)
        self.same(into(new)(a, b, p), np.where(p, a, b), 0, 0)

        def reduced(d, x, q):
            rest = nl.ndarray(x.shape, nl.float32)
            nisa.select_reduce(dst=rest, predicate=q, on_true=x, on_false=-9.0, reduce_res=d,
                               reduce_cmd=nisa.reduce_cmd.reset_reduce)
        self.same(into(reduced, (128, 1))(a, p), np.where(p, a, -9).max(1, keepdims=True), 0, 0)

    def test_range_select(self):
        a = data(128, 40)
        lo, hi = (rng.integers(0, 40, (128, 1)).astype(np.float32) for _ in range(2))

        def new(d, x, b0, b1):
            nisa.range_select(dst=d, on_true_tile=x, comp_op0=nl.greater_equal, comp_op1=nl.less,
                              bound0=b0, bound1=b1, range_start=3)
        i = np.arange(40) + 3
        self.same(into(new)(a, lo, hi), np.where((i >= lo) & (i < hi), a, nl.fp32.min), 0, 0)

    def test_affine_select_by_pattern_and_by_mask(self):
        a = data(100, 100)
        want = np.where(np.arange(100)[:, None] >= np.arange(100), a, -5)

        def new(d, x):
            nisa.affine_select(dst=d, pattern=[[-1, 100]], channel_multiplier=1, on_true_tile=x,
                               on_false_value=-5.0, cmp_op=nl.greater_equal)

        def old(x):
            i, j = nl.mgrid[0:100, 0:100]
            return nisa.affine_select(pred=(i >= j), on_true_tile=x[i, j], on_false_value=-5.0)
        self.both(new, old, (a,), want, rtol=0, atol=0)

    def test_iota(self):
        want = 5 + np.arange(64)[:, None] * 3 + np.arange(20) * 2
        self.same(into(lambda d: nisa.iota(d, [[2, 20]], 5, 3), (64, 20), nl.int32)(), want, 0, 0)
        got = of_tiles(lambda: nisa.iota(
            5 + 3 * nl.arange(64)[:, None] + 2 * nl.arange(20)[None, :], dtype=nl.int32),
            (64, 20), nl.int32)()
        self.same(got, want, 0, 0)


class Reductions(KernelCase):
    def test_a_reduction_into_its_source(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            nisa.tensor_reduce(dst=t[:, 1:2], op=nl.maximum, data=t[:, 0:4], axis=1)
            nisa.tensor_reduce(dst=t[:, 5:6], op=nl.add, data=t.ap([[8, 16], [2, 2]], offset=4),
                               axis=1)  # between the places that it reads
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=t)
            return out
        x = data(16, 8)
        want = x.copy()
        want[:, 1], want[:, 5] = x[:, :4].max(1), x[:, 4] + x[:, 6]
        self.same(kernel(x), want)
        self.assertEqual(kernel.source(x).count("tensor_copy"), 1)
        self.clean(kernel, x)

    def test_tensor_reduce(self):
        a = data(128, 6, 7)

        def new(d, x):
            nisa.tensor_reduce(dst=d, op=nl.add, data=x, axis=(2,), negate=True)
        self.same(into(new, (128, 6))(a), -a.sum(2), 1e-5, 1e-5)
        self.same(of_tiles(lambda x: nisa.tensor_reduce(np.max, x, axis=[1, 2]), (128, 1))(a),
                  a.max((1, 2))[:, None])
        with self.assertRaisesRegex(soma.KernelError, "the axes must be the last ones"):
            into(lambda d, x: nisa.tensor_reduce(d, nl.add, x, 1), (128, 7))(a)

    def test_partition_reduce(self):
        a = data(100, 30)
        self.same(into(lambda d, x: nisa.tensor_partition_reduce(d, nl.add, x), (1, 30))(a),
                  a.sum(0, keepdims=True), 1e-4, 1e-5)
        self.same(of_tiles(lambda x: nisa.tensor_partition_reduce(np.add, x), (1, 30))(a),
                  a.sum(0, keepdims=True), 1e-4, 1e-5)

    def test_bn_stats(self):
        a = data(128, 300)

        def new(d, x):
            stats = nl.ndarray((128, 6), nl.float32)
            nisa.bn_stats(dst=stats, data=x)
            nisa.bn_aggr(dst=d, data=stats)
        want = np.stack([a.mean(1), a.var(1)], 1)
        self.same(into(new, (128, 2))(a), want, 1e-5, 1e-5)
        self.same(of_tiles(lambda x: nisa.bn_aggr(nisa.bn_stats(x)), (128, 2))(a), want, 1e-5, 1e-5)

    def test_the_eight_largest(self):
        a = rng.permutation(128 * 64).reshape(128, 64).astype(np.float32)
        want = -np.sort(-a, 1)[:, :8]
        self.same(into(lambda d, x: nisa.max8(d, x), (128, 8))(a), want, 0, 0)

        def places(d, x):
            nisa.nc_find_index8(dst=d, data=x, vals=nisa.max8(src=x))
        self.same(into(places, (128, 8), nl.uint32)(a), np.argsort(-a, 1)[:, :8], 0, 0)

        def replaced(d, x):
            nisa.nc_match_replace8(dst=d, data=x, vals=nisa.max8(src=x), imm=-1.0)
        self.same(into(replaced)(a), np.where(a >= want[:, 7:], -1, a), 0, 0)


class Tensor(KernelCase):
    def test_nc_matmul_accumulates_as_it_is_told(self):
        a, b = data(128, 64), data(128, 100)
        for flags, times in (((None, None), 2), ((False, True), 2), ((False, False), 1)):
            def new(d, x, y):
                for f in flags:
                    nisa.nc_matmul(dst=d, stationary=x, moving=y, accumulate=f)
            kernel = into(new, (64, 100), memory=nl.psum)
            self.same(kernel(a, b), times * (a.T @ b), 1e-4, 1e-4)
            found = kernel.check(a, b)  # a sum that nothing reads is lost where the second writes
            self.assertEqual({f.check for f in found}, {"psum"} if times == 1 else set())
        self.same(of_tiles(lambda x, y: nisa.nc_matmul(x, y), (64, 100))(a, b), a.T @ b, 1e-4, 1e-4)

    def test_the_first_matmul_after_a_memset_writes(self):
        a, b = data(128, 64), data(128, 100)

        def new(d, x, y):
            nisa.memset(d, 0.0)
            for _ in range(2):
                for c in range(2):
                    nisa.nc_matmul(dst=d[:, 40 * c:40 * c + 40], stationary=x,
                                   moving=y[:, 40 * c:40 * c + 40])
        kernel = into(new, (64, 100), memory=nl.psum)
        want = 2 * a.T @ b
        want[:, 80:] = 0
        self.same(kernel(a, b), want, 1e-4, 1e-4)
        self.clean(kernel, a, b)

    def test_equal_weights_are_loaded_once(self):
        a, b = data(128, 64), data(128, 100)

        def new(d, x, y):
            nisa.nc_matmul(dst=d[:, 0:50], stationary=x, moving=y[:, 0:50])
            nisa.nc_matmul(dst=d[:, 50:100], stationary=x, moving=y[:, 50:100])
        kernel = into(new, (64, 100), memory=nl.psum)
        self.same(kernel(a, b), a.T @ b, 1e-4, 1e-4)
        self.assertEqual(kernel.source(a, b).count("ldweights"), 1)

    def test_tiles_of_the_array(self):
        a, b = data(64, 64), data(64, 100)

        def new(d, x, y):
            nisa.nc_matmul(dst=d, stationary=x, moving=y, tile_position=(0, 0), tile_size=(64, 64))
        self.same(into(new, (64, 100), memory=nl.psum)(a, b), a.T @ b, 1e-4, 1e-4)

    def test_nc_transpose_on_both_engines(self):
        a = data(100, 60)
        self.same(into(lambda d, x: nisa.nc_transpose(d, x), (60, 100), memory=nl.psum)(a), a.T, 0,
                  0)
        small = data(32, 20)
        self.same(into(lambda d, x: nisa.nc_transpose(d, x, engine=nisa.engine.vector),
                       (20, 32))(small), small.T, 0, 0)
        self.same(of_tiles(lambda x: nisa.nc_transpose(x), (60, 100))(a), a.T, 0, 0)

    def test_stream_shuffle(self):
        a = data(64, 10)
        mask = [(i + 5) % 32 for i in range(32)]

        def new(d, x):
            nisa.nc_stream_shuffle(dst=d, src=x, shuffle_mask=mask)
        want = np.concatenate([a[:32][mask], a[32:][mask]])
        self.same(into(new)(a), want, 0, 0)

    def test_stream_shuffle_of_a_part_of_its_destination(self):
        a = data(32, 10)

        def new(d, x):
            nisa.tensor_copy(d, x)
            nisa.nc_stream_shuffle(dst=d, src=d[0:1, :], shuffle_mask=[0] * 32)
        self.same(into(new)(a), np.repeat(a[:1], 32, 0), 0, 0)
        self.clean(into(new), a)

    def test_gathers(self):
        a = data(128, 64)
        i = rng.integers(0, 64, (128, 700)).astype(np.uint32)
        self.same(into(lambda d, x, y: nisa.nc_n_gather(dst=d, data=x, indices=y), (128, 700))(
            a, i),
                  np.take_along_axis(a, i.astype(int), 1), 0, 0)
        j = rng.integers(0, 64, (128, 3)).astype(np.uint16)
        want = np.zeros((128, 48), np.float32)
        for p in range(128):
            core = j[p // 16 * 16:p // 16 * 16 + 16].T.ravel()
            want[p] = a[p, core]
        self.same(into(lambda d, x, y: nisa.local_gather(dst=d, src_buffer=x, index=y),
                       (128, 48))(a, j), want, 0, 0)

    def test_positions(self):
        ids = np.int32([[1, 1, 2, 2, 2, 0, 3]])
        got = into(lambda d, x: nisa.sequence_bounds(dst=d, segment_ids=x), (1, 2, 7),
                   nl.int32)(ids)
        self.same(got[0], [[0, 0, 2, 2, 2, 7, 6], [2, 2, 5, 5, 5, -1, 7]], 0, 0)

        def count(d, x):
            nisa.memset(d, 0)
            nisa.nonzero_with_count(dst=d, src=x, index_offset=10)
        a = np.zeros((16, 5), np.float32)
        a[0] = [0, 1, 0, 2, 0]
        got = into(count, (16, 6), nl.int32)(a)
        self.same(got[0], [11, 13, -1, -1, -1, 2], 0, 0)

    def test_topk(self):
        a = soma.array(rng.permutation(256).reshape(16, 16).astype(np.float32), "bfloat16")

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            v, i = nl.ndarray((16, 16), nl.bfloat16), nl.ndarray((16, 16), nl.uint32)
            nisa.topk(v, i, t, 256)  # sixteen of them: as many as a partition of v has
            out = nl.ndarray((16, 1), nl.uint32, buffer=nl.shared_hbm)
            nl.store(out, i[:, 0:1])
            return out
        want = np.argsort(a.astype(np.float32).T.ravel())[-16:]
        self.assertEqual(kernel(a)[:, 0].tolist(), want.tolist())


class Random(KernelCase):
    def test_bits_states_and_seeds(self):
        def bits(d):
            nisa.set_rng_seed(nl.full((1, 1), 7, nl.int32))
            nisa.rng(d)
        a = into(bits, (128, 64), nl.uint32)()
        self.same(a, into(bits, (128, 64), nl.uint32)(), 0, 0)
        self.assertGreater(len(np.unique(a)), 8000)

        def state(d):
            nisa.rand_get_state(d)
            nisa.rand_set_state(d)
        self.assertEqual(into(state, (128, 6), nl.uint32)().shape, (128, 6))

    def test_dropout_by_a_column(self):
        x, p = data(128, 100, low=1), np.zeros((128, 1), np.float32)
        p[64:] = 1
        got = into(lambda d, t, q: nisa.dropout(dst=d, data=t, prob=q))(x, p)
        self.same(got[:64], x[:64], 0, 0)
        self.assertFalse(got[64:].any())


@unittest.skipIf("NEURON_PLATFORM_TARGET_OVERRIDE" in __import__("os").environ, "a target is set")
class Trn3(KernelCase):
    def on_trn3(self, kernel):
        return nki.jit(kernel.function, platform_target="trn3")

    def test_activate2_and_exponential(self):
        a = data(128, 40)
        k = self.on_trn3(into(lambda d, x: nisa.activate2(
            dst=d, op=nl.relu, data=x, imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.add)))
        self.same(k(a), np.maximum(2 * a + 0.5, 0))

        def sums(d, x):
            rest = nl.ndarray(x.shape, nl.float32)
            nisa.exponential(dst=rest, src=x, max_value=1.0, reduce_res=d,
                             reduce_cmd=nisa.reduce_cmd.reset_reduce)
        self.same(self.on_trn3(into(sums, (128, 1)))(a), np.exp(a - 1).sum(1, keepdims=True))

    def test_rand2(self):
        k = self.on_trn3(into(lambda d: nisa.rand2(d, 2.0, 3.0), (128, 64)))
        got = k()
        self.assertTrue(2 <= got.min() < 2.1 and 2.9 < got.max() <= 3)

    def test_mx(self):
        a, b = (soma.array(data(128, 64), "bfloat16") for _ in range(2))

        def onto_zeros(d, x, y):
            nisa.memset(d, 0.0)
            product(d, x, y, True)
            product(d, x, y, True)

        def product(d, x, y, accumulate=None):
            parts = []
            for t in (x, y):
                q = nl.ndarray((128, 16), nl.float8_e4m3fn_x4)
                s = nl.ndarray((128, 16), nl.uint8)
                nisa.quantize_mx(dst=q, src=t, dst_scale=s)
                parts += [q, s]
            nisa.nc_matmul_mx(dst=d, stationary=parts[0], moving=parts[2],
                              stationary_scale=parts[1], moving_scale=parts[3],
                              accumulate=accumulate)
        got = self.on_trn3(into(product, (16, 16), memory=nl.psum))(a, b)
        twice = self.on_trn3(into(onto_zeros, (16, 16), memory=nl.psum))(a, b)
        np.testing.assert_array_equal(twice, 2 * got)
        x, y = (t.astype(np.float32).reshape(128, 16, 4).transpose(0, 2, 1).reshape(512, 16)
                for t in (a, b))
        self.same(got, x.T @ y, 0.1, 3.0)

    def test_indirect_operands(self):
        a, i = data(16, 40), rng.permutation(32).astype(np.uint16)
        snake = i.reshape(2, 16).T.copy()

        def pick(d, x, y):
            nisa.tensor_copy(d, x.indirect(y), engine=nisa.engine.vector)
        self.same(self.on_trn3(into(pick, (16, 32)))(a, snake), a[:, i], 0, 0)

    def test_they_are_refused_before(self):
        with self.assertRaisesRegex(soma.KernelError, "trn3|gen4"):
            into(lambda d, x: nisa.exponential(dst=d, src=x))(data(8, 8))


class Dma(KernelCase):
    def test_every_way_of_making_descriptors(self):
        a = data(128, 64)
        for mode in nisa.dge_mode:
            def new(d, x):
                nisa.dma_copy(dst=d, src=x, dge_mode=mode)
            self.same(into(new)(a), a, 0, 0)

        def named(d, x):
            nisa.dma_copy(dst=d, src=x, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
        self.same(into(named)(a), a, 0, 0)

    def test_dma_transpose_casts_and_sums(self):
        a = soma.array(data(128, 64), "bfloat16")

        @nki.jit
        def turn(x):
            t = nl.ndarray((64, 128), nl.bfloat16)
            nisa.dma_transpose(dst=t, src=x, axes=(1, 0))
            out = nl.ndarray((64, 128), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=t)
            return out
        self.same(turn(a), a.astype(np.float32).T, 0, 0)
        self.same(nki.jit(turn, platform_target="trn1")(a), a.astype(np.float32).T, 0, 0)
        x, y = data(64, 30), data(64, 30)

        @nki.jit
        def total(p, q):
            out = nl.ndarray(p.shape, nl.float32, buffer=nl.shared_hbm)
            nisa.dma_compute(out, [p, q, p], reduce_op=nl.add)
            return out
        self.same(total(x, y), x + y + x)

    def test_scalar_takes_part_on_trn1(self):
        """Its activates stand for scaled copies and copies out of PSUM, and reciprocals are its
        own, with the same bits and without limits that the kernel did not ask for."""
        def body(a, w):
            o = nl.ndarray((4, 128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
            t, s = nl.load(a), nl.load(w)
            for i in range(4):
                by = s[:, i:i + 1]
                x = nisa.tensor_scalar(t, nl.multiply, 1.5 + i)
                x = nisa.tensor_scalar(x, nl.multiply, by, op1=nl.add, operand1=by)
                y = nisa.nc_matmul(s, x)
                z = nl.add(nisa.tensor_copy(y), nisa.reciprocal(t))
                nl.store(o[i], nisa.tensor_scalar(z, nl.add, by))
            return o
        a, w = data(128, 64), data(128, 128)
        a[0, :4] = [1e30, -1e-30, -0.0, np.inf]
        texts = {}
        for target in "trn1", "trn2":
            kernel = old.jit(body, platform_target=target)
            plain = old.jit(body, platform_target=target, optimize=0)
            got, want = np.asarray(kernel(a, w)), np.asarray(plain(a, w))
            np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
            self.assertEqual([f for f in kernel.check(a, w) if "reciprocal" in str(f)], [])
            text = kernel.source(a, w)
            texts[target] = text[text.index("section scalar"):].split("section")[1]
            self.assertNotIn("activate", plain.source(a, w))
        for name in "activate", "reciprocal":
            self.assertIn(name, texts["trn1"])
            self.assertNotIn(name, texts["trn2"])
        self.assertIn("fn=copy, scale=", texts["trn1"])

    def test_dma_transpose_of_trn1_is_a_copy_from_hbm(self):
        a = data(2, 3, 4, 5)

        @nki.jit(platform_target="trn1")
        def turn(x):
            t = nl.ndarray((5, 3, 4, 2), nl.float32)
            nisa.dma_transpose(dst=t, src=x, axes=(3, 1, 2, 0))
            out = nl.ndarray(t.shape, nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=t)
            return out
        self.same(turn(a), a.transpose(3, 1, 2, 0), 0, 0)

        @nki.jit(platform_target="trn1")
        def by_hardware(x):
            t = nl.ndarray((64, 128), nl.float32)
            nisa.dma_transpose(dst=t, src=x, axes=(1, 0), dge_mode=nisa.dge_mode.hwdge)
        with self.assertRaisesRegex(soma.KernelError, "trn1 has no queue of that kind"):
            by_hardware(data(128, 64))

    def test_gather_scatter_and_skipped_rows(self):
        a = data(128, 20)
        i = np.int32([[3], [200], [5], [0]])

        @nki.jit
        def kernel(x, index):
            rows = nl.ndarray((4, 1), nl.int32)
            nisa.dma_copy(dst=rows, src=index)
            t = nl.ndarray((4, 20), nl.float32)
            nisa.memset(t, -1.0)
            nisa.dma_copy(dst=t, src=x.ap([[20, 4], [1, 20]], vector_offset=rows, indirect_dim=0),
                          oob_mode=nisa.oob_mode.skip)
            out = nl.ndarray((4, 20), nl.float32, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=t)
            return out
        want = np.stack([a[3], np.full(20, -1), a[5], a[0]])
        self.same(kernel(a, i), want, 0, 0)

    def test_an_index_out_of_bounds_faults_as_an_index_error(self):
        @nki.jit
        def kernel(x, index):
            t = nl.load(x.vector_select(0, nl.load(index)))
            nl.store(x[0:2], t)
            return x
        with self.assertRaisesRegex(IndexError, "index 1 .*is 99"):
            kernel(data(10, 20), np.int32([[3], [99]]))

    def test_psum_is_not_reached(self):
        with self.assertRaisesRegex(soma.KernelError, "psum"):
            into(lambda d, x: nisa.dma_copy(dst=d, src=x), memory=nl.psum)(data(8, 8))


class AsTheLibraryCalls(KernelCase):
    """Forms that public libraries of kernels rely on."""

    def test_more_free_dimensions_than_an_instruction_has(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            view = tile.reshape((64, 2, 3, 2, 3, 2, 3)).permute((0, 6, 1, 4, 3, 2, 5))
            out = nl.ndarray((64, 3, 2, 3, 2, 3, 2), dtype=nl.float32, buffer=nl.shared_hbm)
            less = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=less, data=view[:, :, :, :, :, :, :], op0=nl.multiply,
                               operand0=2.0)
            nisa.tensor_tensor(dst=less, data1=less, data2=view, op=nl.add)
            nisa.dma_copy(dst=out, src=less)
            return out
        x = data(64, 216)
        want = 3 * x.reshape(64, 2, 3, 2, 3, 2, 3).transpose(0, 6, 1, 4, 3, 2, 5)
        self.same(kernel(x), want)
        self.clean(kernel, x)

    def test_destination_with_a_step_of_zero_keeps_the_last_element(self):
        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            sums = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
            last = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(dst=last.ap(pattern=[[1, 64], [0, 50]]), op=nl.square, data=tile,
                                   reduce_op=nl.add, reduce_res=sums)
            out = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.shared_hbm)
            nl.store(out[:, 0:1], sums)
            nl.store(out[:, 1:2], last)
            return out
        x = data(64, 50)
        got = kernel(x)
        self.same(got[:, 0], (x * x).sum(1), rtol=1e-4)
        self.same(got[:, 1], x[:, -1] ** 2)
        self.clean(kernel, x)


if __name__ == "__main__":
    unittest.main()
