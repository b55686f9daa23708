s       sem
section vector
top:
%rep 12
        blt     r0, 5, top   $s++
%endrep
        beq     r0, 1, L14
        nop     $s>=2
        halt
section scalar
        nop     $s>=1
        halt
