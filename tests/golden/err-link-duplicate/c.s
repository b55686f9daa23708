        target  trn2
section vector
        halt
