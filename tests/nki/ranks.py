"""Kernels of nki-library with collectives, by the tests of that repository: each runs as the ranks
of a world that the test asks for."""
import importlib
import os
import sys

import numpy as np

import harness
import nki.language as nl
import soma

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


def cases(table, folder):
    standins = os.path.join(os.path.dirname(os.path.abspath(__file__)), "standins", FOLDER)
    added = [standins, os.path.join(folder, TESTS), os.path.join(folder, "src")]
    sys.path[:0] = added
    for file, group, test, arguments in CASES:
        for given in arguments:
            def run(file=file, group=group, test=test, given=given):
                module = importlib.import_module(file)
                owner = getattr(module, group) if group else next(
                    c for n, c in vars(module).items() if n.startswith("Test"))
                getattr(owner(), test)(Manager(), *given)
            said = ", ".join(getattr(x, "__name__", str(x)) for x in given)
            table.case(FOLDER, os.path.join(TESTS, file + ".py"), "%s(%s)" % (test, said), run)
    for path in added:
        sys.path.remove(path)
