section vector
        if      5, lt, r0
        endif
        if      r0, lower, 5
        endif
        if      r0 < 
        else
        endif
        if      r0, lt 5
        endif
        if      r0
        endif
        else
        endif
        if      r0 < 1
        else
        else
        endif
        if      r0 < 1
        endloop
        endif
        loop    r0, 0, 5
        else
        endif
        endloop
        if      r0 < 1
section sync
        endif
        if      r0 < 1
        else    5
        endif   7
        halt
        if      r0 < 1
