%assign i 0
%rep 255
s%+i    sem
%assign i i + 1
%endrep
section vector
        nop     $s0++
        halt
