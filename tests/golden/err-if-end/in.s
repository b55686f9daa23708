section vector
        if      r0 < 1
        halt
        endif
