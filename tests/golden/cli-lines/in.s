section vector
        nop
        halt
