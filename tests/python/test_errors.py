"""Kernels that are wrong: each is refused at its own line, with the rule and the values."""
import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import traceback
import unittest
import unittest.mock
import warnings

import numpy as np
from helper import data

import nki
import nki.isa as nisa
import nki.language as nl
import soma
from soma.errors import KernelError, NotBuilt
from soma.words import of_nki

PACKAGES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "python")

# A statement, the type of its error, what the message says after the place. x, y are tiles of
# 128 x 512 in SBUF, p one in PSUM, a tensor of that shape in HBM.
WRONG = (
    ("nisa.tensor_tensor(dst=y, data1=x, data2=x[:, 0:511], op=nl.add)", KernelError,
     "tensor_tensor data2: 511 elements per partition: dst has 512"),
    ("nisa.tensor_tensor(dst=y, data1=x, data2=x, op='foo')", KernelError,
     "op=foo is not an operator of the machine's engines; there are abs, "),
    ("nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.exp)", KernelError,
     "op=exp is not an operator of the machine's engines: nl.exp(x) computes it; there are abs, "),
    ("nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.fmod)", KernelError,
     "op=fmod is not an operator of the machine's engines: nl.fmod(x, y) computes it; there are "),
    ("nisa.tensor_tensor(dst=y, data1=x, data2=x, op=nl.abs)", KernelError, "tensor_tensor op: abs "
     "takes one operand: tensor_tensor needs an operator of two; nl.abs(x) computes it"),
    ("nisa.tensor_scalar(dst=y, data=x, op0=nl.abs_max, operand0=0.0)", KernelError,
     "tensor_scalar op0: the operator abs_max needs gen4: trn2 is gen3; nl.maximum(nl.abs(x), "
     "nl.abs(y)) computes it"),
    ("nl.abs_min(x, x)", KernelError, "tensor_tensor op: the operator abs_min needs gen4: trn2 is "
     "gen3; nl.minimum(nl.abs(x), nl.abs(y)) computes it"),
    ("nisa.tensor_tensor(y, x, x)", KernelError, "op is missing: give an operator such as nl.add"),
    ("nisa.tensor_tensor(dst=y, data1=x, data2=a, op=nl.add)", KernelError, "tensor_tensor data2: "
     "tensor_tensor does not take an hbm operand here: copy it to sbuf with DMA"),
    ("nisa.tensor_scalar(dst=y, data=x, op0=nl.add, operand0=1e-5, op1=nl.rsqrt)", KernelError,
     "tensor_scalar op0: add, rsqrt: tensor_scalar on gpsimd has only op0=rsqrt"),
    ("nisa.activation(dst=y, op=nl.add, data=x)", KernelError,
     "op=add is not an activation function; there are abs, "),
    ("nisa.activation(dst=y, op=nl.exp, data=x, bias=x)", KernelError,
     "activation bias: 512 elements per partition: the operand must be a [P, 1] vector"),
    ("nisa.activation(dst=y, op=nl.exp, data=x, scale='x')", KernelError, "scale is 'x': a number, "
     "a register or a tile of one element in each partition is needed"),
    ("nisa.activation(dst=y, op=nl.exp, data=x, reduce_cmd=9)", KernelError,
     "activation: reduce_cmd=9: there are idle, reset, reduce, reset_reduce, load_reduce"),
    ("nisa.nc_matmul(dst=y, stationary=x[:, 0:128], moving=x)", KernelError,
     "nc_matmul dst: the tensor engine does not write sbuf in nc_matmul: use psum"),
    ("nisa.nc_matmul(dst=p, stationary=x, moving=x)", KernelError,
     "nc_matmul stationary: 512 columns: the stationary operand has at most 128"),
    ("nisa.nc_matmul(dst=p, stationary=x[0:64, 0:128], moving=x)", KernelError,
     "nc_matmul: stationary has 64 partitions, moving 128: they are summed over"),
    ("nl.matmul(x, y)", KernelError,
     "nc_matmul stationary: 512 columns: the stationary operand has at most 128"),
    ("nisa.nc_matmul(dst=p[0:64, 0:8], stationary=x[:, 0:128], moving=y[:, 0:8])", KernelError,
     "nc_matmul dst: 64 partitions: stationary has 128 columns, and each gives one"),
    ("nisa.nc_transpose(dst=p[0:64, 0:128], data=x[:, 0:128])", KernelError,
     "nc_transpose dst: 64 x 128: the transpose of data is 128 x 128"),
    ("nisa.nc_transpose(dst=p[0:60, 0:30], data=x[3:33, 0:60])", KernelError,
     "nc_transpose data: start partition 3: an operand of 30 partitions must start at"),
    ("nisa.nc_transpose(dst=y[:, 0:128], data=x[:, 0:128], engine=nisa.engine.tensor)",
     KernelError, "nc_transpose dst: the tensor engine does not write sbuf in nc_transpose: use "
     "psum"),
    ("nisa.nc_transpose(dst=p, data=x)", KernelError,
     "nc_transpose data: 512 columns: it has at most 128"),
    ("nl.transpose(x)", KernelError, "a tile of 512 partitions (shape [512, 128]): there are 128"),
    ("x[:, 600]", KernelError, "index 600 of dimension 1, which has 512 elements"),
    ("x[5:3, :]", KernelError, "5:3 of dimension 0, which has 128 elements, is empty"),
    ("x[0, 0, 0]", KernelError, "3 indices for a tensor with 2 dimensions"),
    ("x[:, 'a']", KernelError, "index 'a' of dimension 1: it takes whole numbers, slices"),
    ("nisa.tensor_copy(dst=y[10:20], src=x[10:20])", KernelError,
     "tensor_copy dst: start partition 10: an operand of 10 partitions must start at 0, 32, 64"),
    ("nisa.tensor_copy(dst=y[:, 0:100], src=x[:, 500:600])", KernelError,
     "tensor_copy src: 12 elements per partition: dst has 100"),
    ("nisa.tensor_copy(dst=y, src=x, engine=nisa.engine.tensor)", KernelError, "tensor_copy: "
     "tensor_copy is not an instruction of the tensor engine: vector, scalar, gpsimd"),
    ("nisa.tensor_copy(dst=y, src=p, engine=nisa.engine.gpsimd)", KernelError,
     "tensor_copy src: gpsimd does not reach psum: use vector or scalar"),
    ("nisa.tensor_copy(dst=y, src=x, engine='gpu')", KernelError,
     "tensor_copy: engine='gpu' is not an engine"),
    ("x[:, 1:] = x[:, :-1]", KernelError, "tensor_copy dst: overlaps src: a destination must have "
     "exactly the elements of a source or share no byte with it"),
    ("x[i, j * j]", KernelError, "(i1) * i1 is not affine: an access pattern takes sums of"),
    ("x[j, i]", KernelError, "index i1 of the partitions: its step must be 1, along axis 0"),
    ("nl.copy(x[i, j + 88])", KernelError, "index i1 + 88 runs from 88 to 599: the dimension has "
     "512 elements; limit it by a mask"),
    ("nl.load(a, mask=i ** 2 < 5)", KernelError, "(i0) ** 2 is not affine"),
    ("nisa.tensor_reduce(nl.add, x, axis=1, mask=(i < j))", NotBuilt, "tensor_reduce: mask "),
    ("nl.load(a, mask=3)", KernelError, "mask=3: a mask is made of comparisons of indices"),
    ("nl.store(a, 1, mask=(64, 40))", KernelError, "mask=(64, 40): a mask is made of comparisons"),
    ("1 if x[0, 0] > 3 else 2", KernelError, "the values of a tile are known when the kernel runs, "
     "not while it is built: they cannot decide an `if`, a `while` or Python's max(); nl.where"),
    ("1 if x[0, 0] else 2", KernelError, "the values of a tile are known when the kernel runs, "
     "not while it is built: they cannot decide an `if`, a `while` or Python's max(); nl.where "
     "chooses between two values for each element, nl.maximum takes the larger; "
     "nisa.register_load and `while reg:` ask for one; `is not None` asks whether there is a "
     "tile"),
    ("x.assert_shape((128, 4))", KernelError,
     "assert_shape: the shape is [128, 512], not [128, 4]"),
    ("max(x, 0.0)", KernelError, "the values of a tile are known when the kernel runs"),
    ("range(x)", TypeError, "<float32[128, 512] in sbuf, x>: its values are known when the kernel"),
    ("nisa.activation(dst=y, data=x)", KernelError,
     "op is missing: give a function such as nl.exp"),
    ("nisa.tensor_tensor(dst=y, src0=x, src1=x, op=nl.add)", TypeError, "tensor_tensor() got an "
     "unexpected keyword argument 'src0'; its arguments are dst, data1, data2, op, engine, name"),
    ("nisa.tensor_tensors(dst=y, data1=x, data2=x, op=nl.add)", AttributeError,
     "module 'nki.isa' has no attribute 'tensor_tensors'; there is tensor_tensor, "),
    ("nl.quantum(x)", AttributeError, "module 'nki.language' has no attribute 'quantum'"),
    ("nl.add(x, y, dtyp=nl.bfloat16)", TypeError, "add() got an unexpected keyword argument "
     "'dtyp'; its arguments are x, y, dtype, mask"),
    ("nl.zeros((128, 4), nl.float32, bufer=nl.psum)", TypeError, "zeros() got an unexpected "
     "keyword argument 'bufer'; its arguments are shape, dtype, buffer, name, address, memory, "
     "lazy_initialization"),
    ("nl.sum(x)", TypeError, "sum() missing 1 required positional argument: 'axis'; its arguments "
     "are x, axis, dtype, keepdims"),
    ("nisa.tensor_tensor(dst=y, data1=p, data2=p, op=nl.add)", KernelError, "tensor_tensor data2: "
     "data1 and data2 are both in psum: one of them must be in sbuf"),
    ("float(x)", TypeError, "<float32[128, 512] in sbuf, x>: its values are known when the kernel "
     "runs, not while it is built"),
    ("np.asarray(x)", TypeError, "<float32[128, 512] in sbuf, x>: its values are known"),
    ("nl.add(x, np.ones((3, 5)))", KernelError, "nl.add: an operand is a NumPy array of shape "
     "[3, 5]: give it to the kernel as an argument"),
    ("nl.add(x, a)", KernelError, "nl.add: an operand is in hbm: nl.load it first"),
    ("nl.add(x, y[:, 0:3])", KernelError, "shapes [128, 512] and [128, 3] do not broadcast"),
    ("a.broadcast_to(2, 128, 512, dtype=nl.bfloat16)", KernelError, "nl.broadcast_to: x is in HBM, "
     "where a transfer reads it as it is: without dtype= (bfloat16, x has float32)"),
    ("nl.exp(3.0)", KernelError, "nl.exp: x is float, not a tensor"),
    ("nl.load(a.reshape((512, 128)))", KernelError,
     "nl.load of [512, 128]: the first dimension becomes partitions, of which there are 128"),
    ("nl.load(a.reshape((65536,)))", KernelError, "nl.load of [65536]: the first dimension becomes "
     "partitions, of which there are 128; reshape((1, 65536)) makes it one row"),
    ("np.exp(x)", TypeError, "a function of NumPy does not take a tile, whose values are known "
     "when the kernel runs: nki.language has functions of tiles"),
    ("np.mean(x, axis=1)", TypeError, "<float32[128, 512] in sbuf, x>: its values are known when"),
    ("nl.store(a, 'hello')", KernelError, "memset of float32 with 'hello': expected a number"),
    ("nl.program_id(3)", KernelError, "program_id(3) of a grid of 0 dimensions"),
    ("nl.affine_range(x)", KernelError, "range(0, <float32[128, 512] in sbuf, x>, 1): bounds are "
     "whole numbers; nl.dynamic_range takes registers"),
    ("range(nisa.register_alloc(3))", TypeError, "range(), a list's index or the like of register "
     "value reg1: it is known when the kernel runs"),
    ("1 if nisa.register_alloc(3) else 2", TypeError, "the truth value of a register is known when "
     "the kernel runs, not while it is built: only `while reg:` asks for it"),
    ("nisa.register_alloc(3) % 2", TypeError, "% of register value reg1: it is known when"),
    ("nisa.register_alloc(3) / 2", TypeError, "/ of register value reg1: it is known when"),
    ("nisa.register_alloc(3) // 2", TypeError, "// of register value reg1: it is known when"),
    ("nisa.register_alloc(3) == 2", TypeError, "a comparison of register value"),
    ("nisa.tensor_scalar(dst=y, data=x, op0=nl.add)", KernelError,
     "operand0 is None: the operator has two operands"),
    ("nisa.tensor_scalar(dst=y, data=x, op0=nl.add, operand0=np.zeros(3))", KernelError,
     "operand0 is a NumPy array of shape [3]: a number, a register or a tile"),
    ("nisa.tensor_reduce(dst=y[:, 0:1], op=nl.add, data=x, axis=0)", KernelError,
     "tensor_reduce: axis 0 of a tile of 2 dimensions: the free ones are 1 to 1; axis 0 is the "
     "partitions: nisa.tensor_partition_reduce takes those, or a matmul with ones adds them"),
    ("nl.sum(x, axis=None)", KernelError, "nl.sum: axis=None: an axis is a whole number"),
    ("nisa.tensor_reduce(dst=y[:, 0:2], op=nl.add, data=x, axis=1)", KernelError,
     "tensor_reduce dst: 2 elements per partition: reducing the last 1 dimensions of data leaves "
     "1"),
    ("nisa.memset(dst=nl.ndarray((128, 100000), nl.float32), value=0)", KernelError,
     "tile t needs 400000 bytes or more in each partition: trn2 has 229376 in sbuf"),
    ("nisa.memset(dst=nl.ndarray((128, 5000), nl.float32, buffer=nl.psum), value=1)", KernelError,
     "tile t needs 20000 bytes or more in each partition: trn2 has 16384 in psum"),
    ("nisa.memset(dst=nl.ndarray((9, 9), nl.float32, address=(0, 307200)), value=0)", KernelError,
     "tile t: bytes 307200..307235, but a sbuf partition of trn2 has 229376"),
    ("nisa.memset(dst=nl.ndarray((9, 9), nl.int32), value=1.5)", KernelError,
     "memset of int32 with 1.5: an integer type takes a whole number"),
    ("nl.ndarray((129, 4), nl.float32)", KernelError, "[129, 4] in sbuf with 129 partitions: there "
     "are 128; dimension 0, or the one marked by par_dim, is the partitions"),
    ("nl.ndarray((128, -5), nl.float32)", KernelError,
     "shape [128, -5]: sizes must be whole numbers, 1 or more"),
    ("nl.ndarray((9, 9), 'complex64')", TypeError, "complex64 is not a type of the machine; it "),
    ("nl.ndarray((9, 9), nl.float32, buffer='vram')", TypeError,
     "buffer='vram': there are sbuf, psum, private_hbm (hbm) and shared_hbm"),
    ("x.reshape((64, 1024))", KernelError, "reshape of x[128, 512] to [64, 1024]: its "
     "partitions stay 128"),
    ("x.reshape((128, 513))", KernelError,
     "reshape of x[128, 512] to [128, 513]: it has 65536 elements, not 65664"),
    ("x.ap(pattern=[[512, 128], [1, 600]])", KernelError,
     "ap: elements 0 to 599 of x: a partition has 0 to 511"),
    ("nisa.dma_copy(dst=x[:, 0:511], src=a)", KernelError,
     "dma_copy src: 65536 elements: dst has 65408"),
    ("nisa.dma_copy(dst=a[0:10], src=a[5:15])", KernelError, "dma_copy dst: overlaps src"),
    ("nisa.dma_copy(dst=x, src=a, dge_mode=7)", KernelError,
     "dma_copy: dge_mode=7: there are unknown, none, swdge, hwdge"),
    ("nisa.dma_copy(dst=x, src=a, oob_mode=7)", KernelError,
     "dma_copy: oob_mode=7: there are error, skip"),
    ("nisa.dma_copy(dst=x, src=a, engine=nisa.engine.scalar)", KernelError,
     "dma_copy: engine=scalar is for dge_mode.hwdge"),
    ("nisa.iota(dst=x, pattern=[[1, 512, 3]])", KernelError,
     "iota: pattern [[1, 512, 3]]: up to four pairs of whole numbers [step, count]"),
    ("nisa.affine_select(dst=y, pattern=[[1, 511]], on_true_tile=x, on_false_value=0.0)",
     KernelError, "affine_select pattern: 511 values: dst has 512 elements per partition"),
    ("nisa.bn_stats(dst=y[:, 0:6], data=nl.ndarray((128, 600), nl.float32))", KernelError,
     "bn_stats data: 600 elements per partition: bn_stats takes 1 to 512"),
    ("nisa.local_gather(dst=y, src_buffer=x, index=x[:, 0:4])", KernelError,
     "local_gather index: float32: local_gather takes uint16 here"),
    ("nisa.select_reduce(dst=y, predicate=x, on_true=x, on_false=3)", KernelError,
     "select_reduce predicate: float32: select_reduce takes uint8, int8, uint16, int16 here"),
    ("nisa.select_reduce(dst=y, predicate=x, on_true=x, on_false=3, reduce_cmd=9)", KernelError,
     "select_reduce: reduce_cmd=9: there are idle, reset, reduce, reset_reduce, load_reduce"),
    ("nisa.nc_find_index8(dst=y[:, 0:8], data=x, vals=x)", KernelError,
     "nc_find_index8 vals: 512 elements per partition: it must have 8"),
    ("nisa.sendrecv(src=x, dst=y, send_to_rank=1, recv_from_rank=1, pipe_id=0)", KernelError,
     "nisa.sendrecv needs the two cores of LNC=2: this launch has one"),
    ("nki.collectives.all_reduce([x], [y], [], nl.add)", KernelError,
     "all_reduce: replica_group=[]: it needs lists of ranks"),
)
BEFORE = """def kernel(a):
    x, y, p = made()
    i, j = nl.mgrid[0:128, 0:512]
    """


def made():
    x, y = (nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf, name=n) for n in "xy")
    p = nl.ndarray((128, 512), nl.float32, buffer=nl.psum, name="p")
    for t in (x, y, p):
        nisa.memset(dst=t, value=1.0)
    return x, y, p


def kernel_of(statement):
    names = {"nl": nl, "nisa": nisa, "nki": nki, "np": np, "made": made}
    exec(compile(BEFORE + statement + "\n", "case.py", "exec"), names)
    return nki.jit(names["kernel"])


class Errors(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 10), "Python does not say whose attribute it is")
    def test_a_function_of_numpys_arrays_that_tiles_do_not_have(self):
        error = self.refused("x.max()", AttributeError)
        self.assertEqual(str(error),
                         "case.py:4: a tile has no .max(): nl.max is a function of tiles")

    def test_a_tensor_that_is_read_before_it_is_written_has_its_line(self):
        @nki.jit
        def kernel(a):
            out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
            between = nl.ndarray(a.shape, a.dtype, buffer=nl.private_hbm)  # line + 3
            nl.store(out, nl.load(between))
            return out
        line = kernel.function.__code__.co_firstlineno
        with self.assertRaisesRegex(KernelError, r"test_errors.py:%d: dma_copy src: reads byte 0 "
                                    r"of tensor between .*; it is declared at \S*test_errors.py:%d$"
                                    % (line + 4, line + 3)):
            kernel(data(128, 64))

    def test_a_call_whose_result_is_dropped_is_told(self):
        @nki.jit
        def kernel(a):
            out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
            sums = nl.ndarray((128, 1), a.dtype, buffer=nl.sbuf)
            x = nl.load(a)
            for _ in range(2):
                nisa.tensor_scalar(data=x, op0=nl.multiply, operand0=2.0)  # line + 6
            nisa.activation(op=nl.exp, data=x, reduce_op=nl.add, reduce_res=sums,
                            reduce_cmd=nisa.reduce_cmd.reset_reduce)
            x[...] = nl.exp(nl.add(x, 1.0))
            y, z = nl.copy(x), [nl.copy(x)]
            y = nl.add(z[0], y)
            nl.store(out, nl.add(y, sums))
            return out
        line = kernel.function.__code__.co_firstlineno
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            kernel(data(128, 64))
        self.assertEqual([(str(w.message), w.lineno) for w in told], [
            ("the call returns a new tile, which nothing uses: give it a dst, or use what it "
             "returns", line + 6)])

    def test_a_result_that_nothing_writes_is_told(self):
        @nki.jit
        def kernel(a, which):
            one = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
            two = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)  # line + 3
            for t in (one, two)[:which]:
                nl.store(t[nl.program_id(0) * 32:nl.program_id(0) * 32 + 32], nl.load(a[0:32]))
            return one, {"two": two}
        line = kernel.function.__code__.co_firstlineno
        for launched in (kernel, kernel[2]):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                launched(data(128, 64), 2)
                self.assertEqual([str(w.message) for w in told], [])
                launched(data(128, 64), 1)
            self.assertEqual([(str(w.message), w.lineno) for w in told], [
                ("kernel() returns tensor two, which nothing writes: it holds zeros", line + 3)])

    def refused(self, statement, kind):
        with self.assertRaises(kind) as caught:
            kernel_of(statement)(data(128, 512))
        return caught.exception

    def test_words_in_paths_stay(self):
        told = of_nki("src/a.py:3: ldweights src: reads byte 4 of tile src; of src at /x/src/b.py:1"
                      " or src/c.py:2")
        self.assertEqual(told, "src/a.py:3: nc_matmul stationary: reads byte 4 of tile src; "
                         "of stationary at /x/src/b.py:1 or src/c.py:2")

    def test_each_at_its_line_with_rule_and_values(self):
        for statement, kind, text in WRONG:
            with self.subTest(statement):
                error = self.refused(statement, kind)
                want = "case.py:4: " + text
                self.assertEqual(str(error)[:len(want)], want)
                self.assertLess(len(str(error)), 700)

    def test_tiles_of_a_helper_have_the_callers_line_and_variable(self):
        def alloc(n):
            return nl.ndarray((128, n), dtype=nl.float32, buffer=nl.sbuf)

        @nki.jit
        def kernel(x):
            weights = alloc(40000)
            nisa.dma_copy(dst=weights[:, 0:8], src=x)
            acts = alloc(30000)
            nisa.dma_copy(dst=acts[:, 0:8], src=x)
            nisa.tensor_copy(dst=acts[:, 0:8], src=weights[:, 0:8])
            nisa.dma_copy(dst=x, src=acts[:, 0:8])
        first = kernel.function.__code__.co_firstlineno
        with self.assertRaisesRegex(
                KernelError, r"(?s)test_errors.py:%d: tile acts of 120000 .* taken by 1 tile in "
                r"use here:\n  weights: 160000 bytes at 0, from [^\n]*test_errors.py:%d" %
                (first + 4, first + 2)):
            kernel(data(128, 8))

    def test_the_traceback_has_one_frame_of_this_package(self):
        for statement in ("nisa.memset(dst=x, value='a')", "raise KeyError('own')",
                          "nisa.memset(dst=nl.ndarray((9, 100000), nl.float32), value=0)"):
            for name in ("__call__", "run", "check", "source"):
                files = []
                try:
                    getattr(kernel_of(statement), name)(data(128, 512))
                except (KernelError, KeyError, TypeError) as error:
                    files = [f.filename for f in traceback.extract_tb(error.__traceback__)]
                self.assertEqual(len([f for f in files
                                      if os.path.abspath(f).startswith(PACKAGES)]), 1, files)

    def test_a_target_without_two_cores_is_said(self):
        for target in ("trn1", "inf2"):
            with unittest.mock.patch.dict(os.environ, NEURON_PLATFORM_TARGET_OVERRIDE=target):
                with self.assertRaisesRegex(KernelError, "needs the two cores of LNC=2, which %s "
                                                         "does not have: choose trn2" % target):
                    kernel_of("nisa.core_barrier(a, (0, 1))")[2](data(128, 512))

    def test_a_kernel_without_results_is_warned_of(self):
        for statement, wanted in (("pass", True), ("nl.store(a, x)", False), ("return a", False),
                                  ("nl.device_print('x', x[0:1, 0:1])", False)):
            with warnings.catch_warnings(record=True) as found, \
                    contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("always")
                kernel_of(statement)(data(128, 512))
            self.assertEqual([str(w.message) for w in found], [
                "kernel() returns nothing and writes none of its arguments: what it calculates is "
                "lost"] if wanted else [], statement)

    def test_the_traceback_ends_in_the_kernel(self):
        for statement, kind in (("x[:, 600]", KernelError), ("float(x)", TypeError)):
            try:
                kernel_of(statement)(data(128, 512))
            except kind as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
            self.assertEqual((at.filename, at.lineno), ("case.py", 4))

    def test_a_while_that_would_not_end(self):
        def tile(a):
            x = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a)
            while x:
                nisa.tensor_copy(dst=x, src=x)

        def argument(a):
            while a:
                nl.load(a)
        for kernel in tile, argument:
            with self.assertRaisesRegex(KernelError, "`while reg:` ask for one"):
                nki.jit(kernel)(data(4, 4))

        @nki.jit
        def optional(a, bias=None):
            x = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a)
            nl.store(a, x + x if x and not bias else x)
        x = np.ones((4, 4), np.float32)
        optional(x)
        self.assertEqual(x[0, 0], 2)

    def test_a_kernels_own_errors_are_its_own(self):
        error = self.refused("raise RuntimeError('mine')", RuntimeError)
        self.assertEqual(str(error), "mine")
        self.assertIn("case.py:4: a tensor has no .foo",
                      str(self.refused("x.foo()", AttributeError)))
        self.assertIn("case.py:4: a tensor has no .rehsape; it has reshape",
                      str(self.refused("x.rehsape((1, 2))", AttributeError)))
        self.assertIn("has no attribute 'none_such'",
                      str(self.refused("nisa.none_such(x)", AttributeError)))

    def test_what_is_held_back_is_refused_at_its_line_too(self):
        error = self.refused("t = nl.copy(x[i, j + 88])\n    k = 5\n    nl.store(a, t)",
                             KernelError)
        self.assertTrue(str(error).startswith("case.py:4: index i1 + 88 runs"), error)

    def test_a_loop_that_is_left(self):
        error = self.refused("for k in nl.dynamic_range(4):\n        break", KernelError)
        self.assertTrue(str(error).startswith("case.py:4: a loop at run time was left by break"),
                        error)

    def test_calls(self):
        @nki.jit
        def two(a, b):
            return a

        @nki.jit
        def written(a):
            nl.store(a, 1.0)

        @nki.jit
        def made(a):
            yield a

        @nki.jit
        async def later(a):
            return a
        x, fixed = data(128, 512), data(128, 512)
        fixed.flags.writeable = False
        line = made.function.__code__.co_firstlineno
        for call, kind, text in (
                (lambda: two(x), TypeError, "two(): missing a required argument: 'b'"),
                (lambda: two(x.astype(float), x), TypeError, "argument a: float64 arrays are not a "
                 "type of the machine: use .astype(np.float32)"),
                (lambda: two(x, x.astype(">f4")), TypeError, "argument b: an array of float32 in "
                 "the other order of bytes (>f4): use .astype(np.float32)"),
                (lambda: soma.run("", {"x": x.astype(">f4")}), TypeError,
                 "input x: an array of float32 in the other order of bytes (>f4)"),
                (lambda: written(fixed), KernelError, "argument a: the kernel writes it, and the "
                 "array is read-only: give it a copy"),
                (lambda: made(x), KernelError, "%s:%d: a kernel is a plain function: with yield or "
                 "async its body" % (os.path.relpath(__file__), line)),
                (lambda: later(x), KernelError, "%s:%d: a kernel is a plain function"
                 % (os.path.relpath(__file__), line + 4)),
                (lambda: two(np.ma.masked_array(x, x > 0), x), TypeError,
                 "argument a: a masked array: its mask would be lost; give x.filled(0)"),
                (lambda: two[-1](x, x), KernelError,
                 "a grid of -1: sizes must be whole numbers, 1 or more"),
                (lambda: two[2, 0](x, x), KernelError,
                 "a grid of (2, 0): sizes must be whole numbers, 1 or more"),
                (lambda: two[10**5, 10**5](x, x), KernelError,
                 "a grid of (100000, 100000) has 10000000000 programs: each is recorded, and there "
                 "may be 65536"),
                (lambda: nki.jit(3), TypeError, "a kernel must be a function, not 3"),
                (lambda: nl.load(x), KernelError, "an NKI call outside of a kernel"),
                (lambda: nki.jit(two.function, platform_target="trn9")(x, x), Exception,
                 "the target trn9 is not known: there are trn1, inf2, trn2, trn3")):
            with self.assertRaises(kind) as caught:
                call()
            self.assertEqual(str(caught.exception)[:len(text)], text)


SLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
import numpy as np, nki, nki.isa as nisa, nki.language as nl
@nki.jit
def recorded(a):
    x = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    print("now", flush=True)
    while True:
        nisa.memset(dst=x, value=0.0)
@nki.jit
def run(a):
    x = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=x, src=a)
    for i in nl.dynamic_range(1000 * 1000 * 1000):
        nisa.tensor_copy(dst=x, src=x)
    nisa.dma_copy(dst=out, src=x)
    return out
@nki.jit
def double(a):
    x = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=x)
    return out
a = np.ones((128, 512), np.float32)
def checked(a):
    run.check(a, schedules=4)
if sys.argv[1] in ("run", "checked"):
    run.build((a,), {})
    print("now", flush=True)
try:
    globals()[sys.argv[1]](a)
except KeyboardInterrupt as error:
    at, names = error.__traceback__, []
    while at:
        names.append(at.tb_frame.f_code.co_name)
        at = at.tb_next
    assert names[-1] == "recorded" or names[1:] in (["call"], ["checked", "call"]), names
    print("stopped", double(a).sum(), flush=True)
"""


class Interrupts(unittest.TestCase):
    def stopped(self, which):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
        p = subprocess.Popen([sys.executable, "-c", SLOW, which], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, PYTHONPATH=folder))
        self.assertEqual(p.stdout.readline(), "now\n")
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        try:
            out, _ = p.communicate(timeout=100)
        finally:
            p.kill()
        self.assertEqual((p.returncode, out), (0, "stopped 131072.0\n"))

    def test_while_it_is_recorded(self):
        self.stopped("recorded")

    def test_while_it_runs(self):
        self.stopped("run")

    def test_while_it_is_checked_in_threads(self):
        self.stopped("checked")


class OfAnotherCall(unittest.TestCase):
    def test_tiles_and_tensors_of_an_earlier_call(self):
        kept = []

        @nki.jit
        def first(x):
            t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
            p = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.psum)
            nisa.dma_copy(dst=t, src=x)
            nisa.tensor_copy(dst=p, src=t)
            nisa.dma_copy(dst=x, src=t)
            kept[:] = t, p, x, t[:, 0:4]

        @nki.jit
        def then(x, use):
            t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            use(t)
            nisa.dma_copy(dst=x, src=t)
        first(data(128, 8))
        for use in (lambda t: nisa.tensor_copy(dst=t, src=kept[0]),
                    lambda t: nisa.tensor_copy(dst=t[:, 0:4], src=kept[3]),
                    lambda t: nisa.nc_matmul(dst=kept[1], stationary=t, moving=t),
                    lambda t: nisa.nc_matmul(dst=kept[1], stationary=t, moving=t),
                    lambda t: nl.store(kept[2], t)):
            with self.assertRaisesRegex(KernelError, r"test_errors.py:\d+: .*of an earlier call"):
                then(data(128, 8), use)
        with self.assertRaisesRegex(KernelError, "outside of a kernel"):
            kept[0][:, 0:8] = kept[0]


if __name__ == "__main__":
    unittest.main()
