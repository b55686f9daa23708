"""The older tile style: assignments, sums in PSUM, arrays of tiles, grids, allocators, and ways to
run."""
import gzip
import logging
import os
import re
import tempfile
import unittest
import warnings

import neuronxcc.nki as old
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np
from helper import KernelCase, data
from neuronxcc.nki.language import par_dim

import nki
import soma


class Assignments(KernelCase):
    def test_an_assignment_retargets_the_instruction(self):
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            y = nl.ndarray((64, 40), nl.float32)
            y[:, 0:20] = nisa.activation(np.exp, t[:, 0:20])
            y[:, 20:40] = nl.add(t[:, 20:40], 1.0)
            out = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, y)
            return out
        x = data(64, 40)
        self.same(kernel(x), np.concatenate([np.exp(x[:, :20]), x[:, 20:] + 1], 1))
        self.assertNotIn("tensor_copy", kernel.source(x))

    def test_a_tile_that_was_assigned_can_be_read_again(self):
        @nki.jit
        def kernel(x):
            t = nl.exp(nl.load(x))
            y, z = (nl.ndarray((64, 40), nl.float32, buffer=nl.sbuf) for _ in range(2))
            y[...] = t
            y[...] = nl.add(y, 5.0)
            z[...] = nl.add(t, 1.0)
            one = nisa.nc_matmul(nl.load(x), y)
            sums = nl.zeros((40, 40), nl.float32, buffer=nl.psum)
            sums += one
            sums += one
            out = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm)
            twice = nl.ndarray((40, 40), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, z)
            nl.store(twice, sums)
            return out, twice
        x = data(64, 40)
        out, twice = kernel(x)
        self.same(out, np.exp(x) + 1)
        self.same(twice, 2 * (x.T @ (np.exp(x) + 5)), 1e-4, 1e-4)

    def test_memory_of_a_kernel_alone_is_no_output(self):
        @nki.jit
        def kernel(x, give):
            far = nl.ndarray((64, 80), nl.float32, buffer=nl.private_hbm)
            nl.store(far[:, 0:40], nl.load(x))
            out = nl.ndarray((64, 40), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.load(far[:, 0:40]))
            return far if give else out
        x = data(64, 40)
        self.same(kernel(x, False), x, 0, 0)
        self.clean(kernel, x, False, ignore=())
        self.same(kernel(x, True)[:, 0:40], x, 0, 0)
        self.assertIn("output", [f.check for f in kernel.check(x, True)])

    def test_another_type_is_a_copy_that_rounds_first(self):
        @nki.jit
        def kernel(x):
            y = nl.ndarray((64, 8), nl.float32)
            y[...] = nl.add(nl.load(x), 1.0, dtype=nl.bfloat16)
            out = nl.ndarray((64, 8), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, y)
            return out
        x = data(64, 8)
        self.same(kernel(x), soma.array(x + 1, "bfloat16").astype(np.float32), 0, 0)

    def test_an_overlapping_assignment_reads_first(self):
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            t[:, 1:10] = nl.multiply(t[:, 0:9], 2.0)
            t[:, 5:6] = 3.0
            out = nl.ndarray((64, 10), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        x = data(64, 10)
        want = x.copy()
        want[:, 1:] = 2 * x[:, :-1]
        want[:, 5] = 3
        self.same(kernel(x), want, 0, 0)

    def test_in_place_operators(self):
        @nki.jit
        def kernel(x):
            t = nl.zeros((64, 10), nl.float32)
            for _ in range(3):
                t[:, 2:6] += nl.load(x)[:, 2:6]
            t *= 2.0
            out = nl.ndarray((64, 10), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        x = data(64, 10)
        want = np.zeros_like(x)
        want[:, 2:6] = 6 * x[:, 2:6]
        self.same(kernel(x), want, 1e-6, 1e-6)


    def test_assignments_to_other_partitions_go_by_dma(self):
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            rows = nl.ndarray((2, 32, 8), nl.float32)
            rows[1, :, :] = t * 2.0
            rows[0, :, :] = t
            rows[1, :, 0:4] = rows[1, :, 0:4] + t[:, 4:8]
            out = nl.ndarray((2, 32, 8), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, rows)
            return out
        x = data(32, 8)
        want = np.stack([x, 2 * x])
        want[1, :, :4] += x[:, 4:]
        self.same(kernel(x), want)

    def test_a_new_axis_of_a_reduced_tile(self):
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            assert t[:, None].shape == (32, 1, 8)
            out = nl.ndarray((32, 8), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, t * nl.sum(t, axis=1)[:, None])
            return out
        x = data(32, 8)
        self.same(kernel(x), x * x.sum(1, keepdims=True), 1e-5, 1e-5)


class Sums(KernelCase):
    def run_sum(self, body, a, b, want, memset=False):
        @nki.jit
        def kernel(x, y):
            out = nl.ndarray(want.shape, nl.float32, buffer=nl.shared_hbm)
            nl.store(out, body(x, y))
            return out
        self.same(kernel(a, b), want, 1e-4, 1e-4)
        self.assertEqual("memset" in kernel.source(a, b), memset)

    def test_each_way_to_start_a_sum(self):
        a, b = data(256, 64), data(256, 100)

        def parts(x, y):
            for k in range(2):
                yield nl.load(x[k * 128:(k + 1) * 128]), nl.load(y[k * 128:(k + 1) * 128])

        def of_zeros(x, y):
            s = nl.zeros((64, 100), nl.float32, buffer=nl.psum)
            for p, q in parts(x, y):
                s += nisa.nc_matmul(p, q)
            return s

        def of_memory(x, y):
            s = nl.ndarray((64, 100), nl.float32, buffer=nl.psum)
            for p, q in parts(x, y):
                s[...] += nl.matmul(p, q, transpose_x=True)
            return s

        def in_columns(x, y):
            s = nl.zeros((64, 100), nl.float32, buffer=nl.psum)
            for p, q in parts(x, y):
                for c in range(2):
                    s[:, 50 * c:50 * c + 50] += nisa.nc_matmul(p, q[:, 50 * c:50 * c + 50])
            return s
        for body in (of_zeros, of_memory, in_columns):
            self.run_sum(body, a, b, a.T @ b)

    def test_zeros_that_no_matmul_starts_are_there(self):
        a, b = data(128, 64), data(128, 100)
        want = a.T @ b
        want[:, 50:] = 0

        def half(x, y):
            s = nl.zeros((64, 100), nl.float32, buffer=nl.psum)
            s[:, 0:50] += nisa.nc_matmul(nl.load(x), nl.load(y)[:, 0:50])
            return s
        self.run_sum(half, a, b, want, memset=True)

        def of_a_tile(x, y):
            s = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
            s += nl.load(x)
            return s
        self.run_sum(of_a_tile, a, b, a, memset=True)


class Arrays(KernelCase):
    def test_dimensions_before_the_partitions_are_tiles(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((3, par_dim(64), 20), nl.float32)
            s = nl.zeros((2, 3, par_dim(64), 20), nl.float32)
            assert t.shape == (3, 64, 20) and s[0].shape == (3, 64, 20)
            out = nl.ndarray((3, nl.par_dim(64), 20), nl.float32, buffer=nl.shared_hbm)
            for i in nl.affine_range(3):
                t[i] = nl.load(x[i])
                s[1, i] += t[i]
                s[1, i, :, 3:5] = 9.0
                nl.store(out[i], s[1, i])
            return out
        x = data(3, 64, 20)
        want = x.copy()
        want[:, :, 3:5] = 9
        self.same(kernel(x), want, 0, 0)

    def test_loop_reduce(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((64, 20), nl.float32)
            for i in nl.affine_range(4):
                t[...] = nl.loop_reduce(nl.load(x[i]), np.add, loop_indices=[i])
            out = nl.ndarray((64, 20), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        x = data(4, 64, 20)
        self.same(kernel(x), x.sum(0), 1e-5, 1e-5)


class Launches(KernelCase):
    def test_a_grid_of_programs_writes_one_tensor(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            i, j = nl.program_id(0), nl.program_id(1)
            assert nl.num_programs(0) == 2 and nl.num_programs() == 8 and nl.program_ndim() == 2
            nl.store(out[i, j], nl.load(x[i, j]) * float(1 + i + j))
            return out
        x = data(2, 4, 64, 10)
        want = x * (1 + np.arange(2)[:, None] + np.arange(4))[..., None, None]
        self.same(kernel[2, 4](x), want)
        self.same(kernel[2, nl.spmd_dim(2, 2)](x), want)

    def test_programs_do_not_wait_for_each_other(self):
        import nki.isa as new

        @nki.jit
        def kernel(x):
            new.core_barrier(data=x, cores=(0, 1))
            nl.store(x, nl.load(x))
        kernel(data(8, 8))
        with self.assertRaisesRegex(NotImplementedError, "one after another"):
            kernel[3](data(8, 8))

    def test_inputs_that_a_kernel_writes_are_written(self):
        @old.jit
        def kernel(x, out):
            nl.store(out, nl.load(x) + 1.0)
        x, out = data(64, 10), np.zeros((64, 10), np.float32)
        kernel(x, out)
        self.same(out, x + 1)
        out[...] = 0
        old.simulate_kernel(kernel, x, out)
        self.same(out, x + 1)

    def test_results_of_each_form(self):
        @nki.jit
        def kernel(xs, scale=2.0, **more):
            a = nl.ndarray((64, 10), nl.float32, buffer=nl.shared_hbm)
            nl.store(a, nl.load(xs["a"]) * scale)
            b = nl.ndarray((64, 10), nl.float32, buffer=nl.shared_hbm)
            nl.store(b, nl.load(xs["b"][0]))
            return a.reshape((10, 64)), [b, 5], {"x": a[0:2]}
        a, b = data(64, 10), data(64, 10)
        first, (second, five), third = kernel({"a": a, "b": [b]})
        self.same(first, (2 * a).reshape(10, 64))
        self.same(second, b, 0, 0)
        self.assertEqual(five, 5)
        self.same(third["x"], 2 * a[:2])

    def test_a_kernel_calls_a_kernel(self):
        @nki.jit
        def inner(t):
            return nl.exp(t)

        @nki.jit
        def outer(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, inner(nl.load(x)))
            return out
        x = data(64, 10)
        self.same(outer(x), np.exp(x))

    def test_every_way_to_run(self):
        def kernel(x: nt.tensor[64, 10]):
            y: nt.tensor[64, 10] = nl.load(x)
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, y * 2.0)
            return out
        x = data(64, 10)
        for run in (nki.jit(kernel), nki.jit(mode="simulation")(kernel), nki.simulate(kernel),
                    old.baremetal(kernel), old.baremetal()(kernel), old.trace(kernel),
                    old.benchmark(warmup=1, iters=1)(kernel), nki.jit(kernel, kernel_return=False),
                    nki.jit(kernel, platform_target="trn1")):
            self.same(run(x), 2 * x)
        self.same(old.simulate_kernel(kernel, x), 2 * x)
        self.same(ncc.skip_middle_end_transformations(nki.jit(kernel))(x), 2 * x)

    def test_files_of_a_profile(self):
        @nki.jit
        def kernel(x):
            nl.store(x, nl.load(x))
        with tempfile.TemporaryDirectory() as folder:
            nki.profile(kernel, working_directory=folder, save_neff_name="k.neff",
                        save_trace_name="k.ntff")(data(8, 8))
            self.assertEqual(sorted(os.listdir(folder)), [
                "k.neff", "k.neff.summary.json", "k.ntff", "k.ntff.html", "k.ntff.summary.json"])
            with open(os.path.join(folder, "k.neff"), "rb") as f:
                self.assertIn("dma_copy", soma.Machine().load(f.read()).source())
            nki.profile(kernel, working_directory=folder, save_trace_name="t.json.gz")(data(8, 8))
            page = os.path.join(folder, "p.html.gz")
            text = nki.jit(kernel).run(data(8, 8)).page(page)
            for name, part in ((page, text), (os.path.join(folder, "t.json.gz"), '"dma_copy"')):
                with gzip.open(name, "rt", encoding="utf-8") as f:
                    self.assertIn(part, f.read())

    def test_words_of_the_language_and_logging(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((8, 8), nl.float32, buffer=sbuf)  # noqa: F821
            t[...] = nl.load(x)
            out = nl.ndarray((8, 8), nl.float32, buffer=hbm)  # noqa: F821
            nl.store(out, t)
            return out
        x = data(8, 8)
        self.same(kernel(x), x, 0, 0)
        self.assertGreater(logging.OFF, logging.CRITICAL)

    def test_objects_with_fields_of_a_kernel(self):
        from dataclasses import dataclass

        @dataclass
        class Config(nl.NKIObject):
            scale: float
            unused: int
            extra = None

        class Plain(nl.NKIObject):
            pass

        @dataclass
        class Own(nl.NKIObject):
            made: int

            def __init__(self, given):
                self.made = given + 1

        @nki.jit
        def kernel(x, config):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x) * config.scale + nl.load(config.extra) * Plain(k=2.0).k)
            return out
        x, y = data(8, 8), data(8, 8)
        self.same(kernel(x, Config(scale=3.0, extra=y)), 3 * x + 2 * y)
        self.assertIsNone(Config(scale=3.0).unused)
        self.assertEqual(Own(given=4).made, 5)


class Places(KernelCase):
    def test_allocators_are_honoured(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            t = nl.ndarray((4, par_dim(64), 16), nl.float32,
                           buffer=ncc.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(2,)))
            p = nl.ndarray((4, par_dim(64), 16), nl.float32,
                           buffer=ncc.psum.alloc(lambda i, parts, size: (i[0] % 2 + 3, 0, 0)))
            u = nl.ndarray((64, 16), nl.float32, address=(0, 8192))
            for i in range(4):
                t[i] = nl.load(x[i])
                p[i] = nl.copy(t[i])
                u[...] = nl.copy(p[i])
                nl.store(out[i], u)
            return out
        x = data(4, 64, 16)
        self.same(kernel(x), x, 0, 0)
        source = kernel.source(x)
        for place in ("at=[0,1024]", "at=[0,1088]", "at=[0,6144]", "at=[0,8192]"):
            self.assertIn(place, source)
        self.clean(kernel, x)

    def test_a_full_memory_names_what_is_in_it(self):
        import nki.isa as new

        @nki.jit
        def kernel(x):
            keep = []
            for i in range(3):
                t = nl.ndarray((128, 20000), nl.float32)
                new.memset(t, float(i))
                keep.append(t)
            new.dma_copy(dst=x, src=keep[0])
            new.dma_copy(dst=x, src=keep[1])
            new.dma_copy(dst=x, src=keep[2])
        with self.assertRaisesRegex(soma.KernelError, r"(?s)does not fit.*test_styles.py:\d+"):
            kernel(data(128, 20000))

    def test_order_on_demand(self):
        import nki.isa as new

        @nki.jit
        def kernel(x):
            a, b = nl.ndarray((64, 8), nl.float32), nl.ndarray((64, 8), nl.float32)
            first = new.memset(a, 1.0, engine=new.engine.gpsimd)
            new.memset(b, 2.0, engine=new.engine.vector).depends_on(first)
            with nl.no_reorder():
                new.dma_copy(dst=x[0:64], src=a)
                new.dma_copy(dst=x[64:128], src=b)
        x = data(128, 8)
        kernel(x)
        self.assertEqual((x[:64] == 1).all() and (x[64:] == 2).all(), True)

        @nki.jit
        def named(x):
            a, b = nl.ndarray((64, 8), nl.float32), nl.ndarray((64, 8), nl.float32)
            new.memset(a, 1.0, engine=new.engine.gpsimd, name="first")
            new.memset(b, 2.0, engine=new.engine.vector, name="then")
            new.dma_copy(dst=x[0:64], src=a)
            new.dma_copy(dst=x[64:128], src=b)
        self.assertNotRegex(named.source(x), "memset.*sbuf.*2.0 .*gpsimd_done>=1")
        for edges in ([("then", "first")], [("then", ["first"])]):
            self.assertRegex(named.with_schedule(edges).source(x), "memset.*2.0 .*gpsimd_done>=1")
        for edges, text in (([("first", "then")], "comes after"), ([("then", "no")], "name='no'")):
            with self.assertRaisesRegex(soma.KernelError, text):
                named.with_schedule(edges)(x)


class OnePlace(KernelCase):
    """What is kept of a place of the source serves another call there only if that asks for the
    same."""

    def test_tiles_of_other_shapes_types_and_names(self):
        made = []

        def tile(shape, dtype, buffer, name=""):
            made.append(nl.ndarray(shape, dtype=dtype, buffer=buffer, name=name))
            return made[-1]

        @nki.jit
        def kernel(x):
            out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
            for shape in ((128, 4), (64, 2, 4), (128, 4), (2, nl.par_dim(64), 4)):
                for dtype in (nl.float32, nl.bfloat16, "float32"):
                    tile(shape, dtype, nl.sbuf)
                    tile(shape, dtype, nl.psum, "named")
            t = tile((128, 4), nl.float32, nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            nisa.dma_copy(dst=out, src=t)
            return out
        x = data(128, 4)
        self.same(kernel(x), x, 0, 0)
        found = [(t.shape, str(t.dtype), t.name, t.buffer.name) for t in made]
        want = [(shape, dtype, name, memory)
                for shape in ((128, 4), (64, 2, 4), (128, 4), (2, 64, 4))
                for dtype in ("float32", "bfloat16", "float32")
                for name, memory in (("", "sbuf"), ("named", "psum"))]
        self.assertEqual([(f[0], f[1], f[2] if f[2] == "named" else "", f[3]) for f in found[:-1]],
                         want)
        self.assertEqual([len(getattr(t, "tiles", "1")) for t in made], [1] * 18 + [2] * 6 + [1])

    def test_results_and_parts_by_the_same_indices(self):
        @nki.jit
        def kernel(x):
            out = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.shared_hbm)
            i, j = nl.mgrid[0:64, 0:8]
            for n, dtype in ((16, nl.float32), (8, nl.float32), (8, nl.bfloat16)):
                t = nl.load(x[0:64, 0:n], dtype=dtype)
                t[i, j] = nl.multiply(t[i, j], 2.0)
                t[i, j] = nl.add(nl.copy(t[i, j], dtype=nl.float32), 1.0)
                out[0:64, 0:n] = nl.exp(t, dtype=nl.float32)
            return out
        x = np.arange(64 * 16, dtype=np.float32).reshape(64, 16) % 8 / 4
        want = np.exp(x)
        want[:, :8] = np.exp(2 * x[:, :8] + 1)
        self.same(kernel(x), want, 1e-2)

    def test_lines_of_functions_in_turn(self):
        def copied(t):
            nisa.tensor_copy(dst=t, src=t)
            nisa.tensor_copy(dst=t, src=t)

        @nki.jit
        def kernel(x):
            t = nl.ndarray((64, 4), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            for _ in range(2):
                copied(t)
                nisa.tensor_copy(dst=t, src=t)
            nisa.dma_copy(dst=x, src=t)
        first = copied.__code__.co_firstlineno
        last = kernel.function.__code__.co_firstlineno + 6
        lines = [int(n) for n in re.findall(r'%line (\d+) .*\n *tensor_copy', kernel.source(
            data(64, 4)))]
        self.assertEqual(sorted(set(lines)), [first + 1, first + 2, last])


class Warnings(KernelCase):
    def test_a_tile_that_nobody_wrote_is_zero_and_said(self):
        @nki.jit
        def kernel(x):
            t = nl.ndarray((8, 8), nl.float32)
            t[0:4] = nl.load(x[0:4])
            nl.store(x, t)
        x = data(8, 8)
        want = x.copy()
        want[4:] = 0
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            kernel(x)
        self.same(x, want, 0, 0)
        self.assertEqual((os.path.basename(seen[0].filename), seen[0].lineno),
                         ("test_styles.py", kernel.function.__code__.co_firstlineno + 4))
        self.assertEqual(str(seen[0].message),
                         "dma_copy src: reads byte 0 of partition 4 of tile t (element [4, 0]), "
                         "which nothing has written before; it reads zeros here")

    def test_tiles_of_one_line_are_told_apart(self):
        def made(shape, buffer=nl.sbuf):
            return nl.ndarray(shape, dtype=nl.float32, buffer=buffer)

        @nki.jit
        def kernel(x, n):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            tiles = [made(x.shape) for _ in range(8)]
            for t in tiles[n:]:
                nisa.dma_copy(dst=t, src=x)
            for t in tiles[:n]:
                nisa.dma_copy(dst=t[:, 0:6], src=x[:, 0:6])
            acc = made(x.shape)
            nisa.memset(dst=acc, value=0.0)
            for t in tiles:
                nisa.tensor_tensor(dst=acc, data1=acc, data2=t, op=nl.add)
            nisa.dma_copy(dst=out, src=acc)
            return out
        x = np.ones((8, 8), np.float32)
        for n in (0, 1, 3, 8):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                got = kernel(x, n)
            self.assertEqual((got[0, 0], got[7, 7]), (8, 8 - n))
            self.assertEqual(len(seen), n > 0)  # one line reads them all
            self.assertEqual(kernel.source(x, n).count("memset"), 1 + n)

    def test_a_tile_in_psum_is_told_apart_from_one_in_sbuf_of_its_line(self):
        def made(shape, buffer=nl.sbuf):
            return nl.ndarray(shape, dtype=nl.float32, buffer=buffer)

        @nki.jit
        def kernel(x):
            t = made(x.shape)
            p = made(x.shape, nl.psum)
            nisa.tensor_tensor(dst=t, data1=t, data2=p, op=nl.add)
            nisa.dma_copy(dst=x, src=t)
        with self.assertWarnsRegex(UserWarning, r"data2: reads byte 0 of partition 0 of tile p "
                                                r"\(element \[0, 0\]\), which nothing"):
            kernel(data(8, 8))

    def test_a_kernel_that_gives_nothing_is_said_at_its_line(self):
        @nki.jit
        def kernel(x):
            nl.load(x)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            kernel(data(8, 8))
        self.assertEqual((os.path.basename(seen[-1].filename), seen[-1].lineno),
                         ("test_styles.py", kernel.function.__code__.co_firstlineno))

    def test_what_is_unwritten_of_a_tensor_in_hbm(self):
        @nki.jit
        def kernel(x):
            s = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
            nisa.dma_copy(dst=s[0:5, 0:4], src=x[0:5, 0:4])
            nisa.dma_copy(dst=x, src=s)
        with self.assertRaisesRegex(soma.KernelError, r"reads byte 16 of tensor s \(element "
                                                      r"\[0, 4\]\), which"):
            kernel(data(8, 8))


if __name__ == "__main__":
    unittest.main()
