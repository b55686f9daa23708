section vector
        halt
