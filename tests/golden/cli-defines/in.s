section vector
        mov     r0, N
        mov     r1, M
        mov     r2, K
        halt
