section vector
        mov     r0, 1 / 0
        mov     r1, 1 << -1
        mov     r2, 1.5 % 2
        mov     r3, "a" + 1
        mov     r4, "a" < "b"
        mov     r5, (1
        mov     r6, min()
        mov     r7, align_up(-1, 5)
        mov     r8, log2(0)
        mov     r9, 1.5
        mov     r10, nothing
        mov     r11, 08
        mov     r12, 0x
        mov     r13, 1__0
        mov     r14, 99999999999999999999
        mov     r15, 1e999
        mov     r16, ''
        mov     r17, 'toolongtoo'
        mov     r18, "open
        halt
