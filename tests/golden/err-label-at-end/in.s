target trn2
section sync
        beq r0, 0, out
        halt
out:
