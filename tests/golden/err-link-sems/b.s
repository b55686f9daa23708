r       sem     5
section vector
        nop     $r++
        halt
