"""Kernels of nki-library with collectives, by the tests of that repository: each runs as the ranks
of a world that the test asks for."""
import importlib.util
import os
import sys

import numpy as np

import harness
import nki
import nki.isa as nisa
import nki.language as nl
import soma
from nki.collectives import ReplicaGroup

FOLDER = "nki-library"
TESTS = os.path.join("test", "integration", "nkilib", "experimental", "collectives")
BF16, F32, F16 = nl.bfloat16, np.float32, np.float16


class Manager:
    """Runs what a test executes, and compares with the test's own results: those of each rank, or,
    if the test has one result, of rank 0."""

    def execute(self, args):
        ranks = args.inference_args.collective_ranks
        lnc = args.compiler_input.logical_nc_config
        kernel = args.kernel_func[2] if lnc == 2 else args.kernel_func
        given = args.kernel_input
        of = given.of_rank if hasattr(given, "of_rank") else lambda rank: given
        run = soma.world(ranks=ranks).run(kernel, of)
        how = args.validation_args
        for rank in range(ranks if how.golden_output.by_rank else 1):
            for want in how.golden_output.of_rank(rank).values():
                got = run[rank].result
                harness.close(got, np.reshape(want, got.shape), how.relative_accuracy,
                              how.absolute_accuracy, "rank %d" % rank)


# File, class, test, and its arguments.
CASES = (
    ("test_collectives", "TestCollectives", "test_all_reduce", ((2, 2), (2, 1))),
    ("test_collectives", "TestCollectives", "test_all_gather", ((2, 2), (2, 1))),
    ("test_collectives", "TestCollectives", "test_reduce_scatter", ((2, 2), (2, 1))),
    ("test_collectives", "TestCollectives", "test_all_to_all", ((4, 2), (8, 1))),
    ("test_collectives", "TestCollectives", "test_rank_id", ((2, 2), (2, 1))),
    ("test_collectives", "TestCollectives", "test_dma_copy_rank_id", ((2, 2), (2, 1))),
    ("test_sb2sb_allgather", None, "test_allgather_sb2sb",
     ((128, 512, F32, 8), (64, 1024, F16, 8), (96, 512, F16, 16), (128, 384, BF16, 16))),
    ("test_sb2sb_allgather", None, "test_allgather_sb2sb_tiled",
     ((64, 1024, F16, 4, 2), (256, 512, F32, 8, 1), (256, 512, BF16, 4, 2),
      (512, 1024, F16, 8, 2))),
    ("test_fg_allgather", None, "test_fine_grained_allgather",
     ((256, 1024, F16, 4, 2, False), (256, 1024, F32, 4, 2, False), (256, 2048, F16, 16, 2, False),
      (512, 1024, F16, 4, 2, True), (256, 1024, F16, 4, 1, False), (1024, 4096, BF16, 4, 2, False))),
    ("test_fgcc", None, "test_allgather_compute_matmul",
     ((256, 1024, 1024, F32, 4, 2, False), (256, 1024, 1024, F16, 4, 2, True),
      (256, 1024, 1024, F16, 4, 1, True), (256, 1024, 1024, F16, 4, 1, False),
      (512, 1024, 1024, F16, 16, 2, False), (1024, 4096, 4096, BF16, 4, 2, False))),
)


# ---- Helpers of attention_block_tkg, which kernels call -------------------------------------

class _Stack:
    """What those helpers ask of the library's manager of SBUF."""

    def alloc_stack(self, shape, dtype, buffer):
        return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def _loaded(x):
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    return t


def _stored(t):
    out = nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


D = 64  # of a head


def kv_input(module, ranks, heads, batch):
    """Each rank has the queries of its heads for all of the batch, and gets those of all heads for
    its part of the batch."""
    @nki.jit
    def kernel(q, k, v, group):
        part = batch // ranks
        got = module._KVDP_attention_input_collectives(
            _loaded(q), _loaded(k), v, heads, 1, D, ranks, batch, part, 1, group, _Stack())
        return _stored(got[0]), _stored(got[1]), _stored(got[2])
    rng = np.random.default_rng(ranks)
    q = rng.standard_normal((ranks, D, batch * heads)).astype(F16)
    k, v = (rng.standard_normal((ranks,) + s).astype(F16) for s in ((D, batch), (batch, 1, 1, D)))
    group, part = ReplicaGroup([list(range(ranks))]), batch // ranks
    run = soma.world(ranks=ranks).run(
        kernel, lambda r: dict(q=q[r], k=k[r], v=v[r], group=group))
    every = q.reshape(ranks, D, batch, heads).transpose(1, 2, 0, 3).reshape(D, batch, -1)
    for r in range(ranks):
        mine = slice(r * part, (r + 1) * part)
        for got, want in zip(run[r].result, (every[:, mine], k[r][:, mine], v[r][mine])):
            harness.close(got, want.reshape(got.shape), 0, 0, "rank %d" % r)


def kv_output(module, ranks, heads, batch):
    """The way back: each rank gets its heads of all of the batch."""
    part = batch // ranks

    @nki.jit
    def kernel(attn, v, group):
        got = module._KVDP_attention_output_collectives(
            _loaded(attn), v, ranks, part, heads, D, 1, group, _Stack())
        return _stored(got[0]), _stored(got[1])
    rng = np.random.default_rng(ranks)
    attn = rng.standard_normal((ranks, D, part * heads * ranks)).astype(F16)
    v = rng.standard_normal((ranks, part, 1, 1, D)).astype(F16)
    group = ReplicaGroup([list(range(ranks))])
    run = soma.world(ranks=ranks).run(kernel, lambda r: dict(attn=attn[r], v=v[r], group=group))
    whole = attn.reshape(ranks, D, part, ranks, heads).transpose(1, 0, 2, 3, 4)
    for r in range(ranks):
        want = whole[:, :, :, r].reshape(D, batch * heads)
        harness.close(run[r].result[0], want, 0, 0, "rank %d" % r)
        harness.close(run[r].result[1], v[r].reshape(part, D), 0, 0, "rank %d" % r)


HELPERS = "nkilib.experimental.transformer.attention_block_tkg_sharding"


def helpers(table, folder):
    source = os.path.join(folder, "src", "nkilib_src")
    sys.path.insert(0, source)
    path = os.path.join("src", "nkilib_src", *HELPERS.split(".")) + ".py"
    for test, name in ((kv_input, "_KVDP_attention_input_collectives"),
                       (kv_output, "_KVDP_attention_output_collectives")):
        for ranks, heads, batch in ((2, 1, 8), (4, 1, 16), (4, 2, 16), (8, 1, 16)):
            def run(test=test, ranks=ranks, heads=heads, batch=batch):
                test(importlib.import_module(HELPERS), ranks, heads, batch)
            table.case(FOLDER, path, "%s(%d, %d, %d)" % (name, ranks, heads, batch), run)
    sys.path.remove(source)


def cases(table, folder):
    helpers(table, folder)
    standins = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standins", FOLDER)
    added = [standins, os.path.join(folder, TESTS), os.path.join(folder, "src")]
    sys.path[:0] = added
    for file, group, test, arguments in CASES:
        for given in arguments:
            def run(file=file, group=group, test=test, given=given):
                if BF16 in given and importlib.util.find_spec("ml_dtypes") is None:
                    raise harness.Skip("NumPy has no bfloat16 without ml_dtypes")
                module = importlib.import_module(file)
                owner = getattr(module, group) if group else next(
                    c for n, c in vars(module).items() if n.startswith("Test"))
                getattr(owner(), test)(Manager(), *given)
            said = ", ".join(getattr(x, "__name__", str(x)) for x in given)
            table.case(FOLDER, os.path.join(TESTS, file + ".py"), "%s(%s)" % (test, said), run)
    for path in added:
        sys.path.remove(path)
