"""An all-reduce taken apart: the program that a CC sequencer runs for it, and what it takes.

    build/soma-nki samples/nki/all_reduce.py [FOLDER for the picture]

An engine only starts a collective, and goes on. The CC sequencers of its core carry it out: their
programs are made when the world starts, of ordinary instructions. Two ranks here; each pushes the
half that the other one sums to a tensor there, adds, and pushes what it has summed."""
import sys

import numpy as np

import soma

PROGRAM = """
        target  trn2
pair    group   [[0, 1]]
x       tensor  float32[64, 512], input
y       tensor  float32[64, 512], output
done    sem
section gpsimd
        all_reduce  dsts=[y], srcs=[x], group=pair, op=add   $done++
        nop         $done>=1
        halt
"""


def main():
    x = np.random.default_rng(0).standard_normal((2, 64, 512)).astype(np.float32)
    program = soma.Machine("trn2").assemble(PROGRAM, "all_reduce.s")
    world = soma.world(ranks=2, record=True)
    run = world.run(program, lambda rank: {"x": x[rank]})
    for rank in range(2):
        assert np.array_equal(run[rank].out["y"], x[0] + x[1])
    print("What the CC sequencers of rank 0 run, each for half of the bytes:\n")
    shown = False
    for line in run[0].program.source().split("\n"):
        if line.startswith("section "):
            shown = line.startswith("section cc")
        if (shown and "%line" not in line) or line.startswith("dma "):
            print(line)
    print("%.2f us; rank 0 moves %d bytes in %d transfers" % (
        run.time_us, run.stats[0].dma_bytes, run.stats[0].dma_transfers))
    if len(sys.argv) > 1:
        with open(sys.argv[1] + "/nki_all_reduce.svg", "w") as f:
            f.write(run.svg())


if __name__ == "__main__":
    main()
