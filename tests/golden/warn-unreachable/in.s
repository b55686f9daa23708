section vector
        jmp     a
        nop
        nop
a:      if      r0 < 1
        halt
        else
        halt
        endif
        halt
        align   8
        nop
        halt
