s       sem     5
section vector
        nop     $s++
        halt
