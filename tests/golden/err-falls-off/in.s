target trn2
section sync
        nop
        beq r0, 0, L0
section vector
        nop
