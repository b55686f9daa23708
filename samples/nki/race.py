"""A race, planted and found: kernels have no semaphores, so it is planted in the program they
become.

    build/soma-nki samples/nki/race.py

The builder gives each load a semaphore that its sixteen rings signal. Here one wait is lowered from
16 to 15: the result is still right, by luck of timing, and the check names the kernel's own
lines."""
import re

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
import soma


@nki.jit
def scale(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x)                                # writes t
    nisa.activation(dst=t, op=nl.copy, data=t, scale=2.0)      # must wait for all of it
    nisa.dma_copy(dst=out, src=t)
    return out


def main():
    x = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)
    assert np.array_equal(scale(x), 2 * x) and scale.check(x, schedules=4) == []
    print("The kernel: right, and the checks find nothing under four timings.")
    source = scale.source(x)
    planted = re.sub(r"(activate.*>=)16", r"\g<1>15", source)
    assert planted != source
    machine = soma.Machine(checks="race")
    run = machine.run(machine.assemble(planted, "planted.s"), {"x": x})
    right = np.array_equal(run.out["out"], 2 * x)
    print("With one wait lowered: %s, and the check finds\n"
          % ("still right" if right else "wrong"))
    print(run.findings[0])
    assert {f.check for f in run.findings} == {"race"}


if __name__ == "__main__":
    main()
