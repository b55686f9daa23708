        target  trn3
section vector
        halt
