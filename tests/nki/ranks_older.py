"""aws-neuron/nki-samples before its contributed kernels were removed: a matmul beside an all-gather,
and ring attention, on the ranks of a world."""
import importlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile

import numpy as np

import harness
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import soma

FOLDER = "nki-samples"
REVISION = "8370e11^"
BASE = os.path.join("contributed", "neuron-team-kernels")


def _data(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def matmul(module, ranks, m, k, n, generation, in_sbuf, lnc):
    """Each rank has m rows of a, and gets all rows of a times its columns of b."""
    @nki.jit
    def kernel(lhs, rhs):
        result = nl.ndarray((m * ranks, n), dtype=lhs.dtype, buffer=nl.shared_hbm)
        module.collective_matmul(lhs, rhs, None, result, None, tp_degree=ranks,
                                 use_sb_to_sb=in_sbuf, arch_target=generation)
        return result
    a, b = _data(ranks * m, k, scale=0.1), _data(ranks, k, n, seed=1, scale=0.1)
    run = soma.world(ranks=ranks).run(kernel[nl.nc(2)] if lnc == 2 else kernel,
                                      lambda r: dict(lhs=a[r * m:(r + 1) * m], rhs=b[r]))
    for r in range(ranks):
        want = a.astype(np.float32) @ b[r].astype(np.float32)
        got = harness.numbers(run[r].result)
        if lnc == 2:  # the kernel's own layout: core, rank, channel, row
            want = want.reshape(ranks, 2, -1, n).transpose(1, 0, 2, 3).reshape(got.shape)
        harness.close(got, want, 2e-2, 2e-2, "rank %d" % r)


def ring(module, ranks, d, rows):
    """Causal attention; each rank has its rows of the sequence."""
    q, k, v = (_data(ranks, 1, 1, d, rows, seed=s) for s in range(3))
    config = module.FlashConfig(seq_tile_size=512, training=False, should_transpose_v=True)
    pairs = [(r, (r + 1) % ranks) for r in range(ranks)]
    run = soma.world(ranks=ranks).run(
        module.ring_attention_fwd[1, 1],
        lambda r: dict(q=q[r], k=k[r], v=v[r], seed=None, rank_id=r, src_tgt_pairs=pairs,
                       use_causal_mask=True, mixed_precision=False, config=config))
    qs, ks, vs = (x[:, 0, 0].transpose(0, 2, 1).reshape(-1, d).astype(np.float64)
                  for x in (q, k, v))
    scores = qs @ ks.T / d ** 0.5
    scores[np.triu_indices(len(scores), 1)] = -np.inf
    e = np.exp(scores - scores.max(1, keepdims=True))
    want = e / e.sum(1, keepdims=True) @ vs
    got = [r.result[0] if isinstance(r.result, tuple) else r.result for r in run]
    harness.close(np.concatenate([harness.numbers(g)[0, 0] for g in got]), want, 1e-2, 1e-2)


CASES = (
    ("collective_matmul", matmul, (8, 256, 512, 512, nisa.nc_version.gen2, False, 1)),
    ("collective_matmul", matmul, (8, 256, 512, 512, nisa.nc_version.gen2, True, 1)),
    ("collective_matmul", matmul, (8, 512, 512, 512, nisa.nc_version.gen3, True, 2)),
    ("attention", ring, (2, 64, 512)),
    ("attention", ring, (4, 64, 512)),
    ("attention", ring, (4, 128, 1024)),
)


def cases(table, folder):
    with tempfile.TemporaryDirectory() as at:
        done = subprocess.run(["git", "-C", folder, "archive", REVISION, BASE],
                              capture_output=True)
        if done.returncode:
            print("%s has no %s, not run" % (FOLDER, REVISION))
            return
        tarfile.open(fileobj=io.BytesIO(done.stdout)).extractall(at)
        source = os.path.join(at, BASE)
        sys.path.insert(0, source)
        for file, test, arguments in CASES:
            def run(file=file, test=test, arguments=arguments):
                test(importlib.import_module(file), *arguments)
            function = "collective_matmul" if test is matmul else "ring_attention_fwd"
            said = ", ".join(getattr(x, "name", str(x)) for x in arguments)
            table.case("%s %s" % (FOLDER, REVISION), os.path.join(BASE, file + ".py"),
                       "%s(%s)" % (function, said), run)
        sys.path.remove(source)
