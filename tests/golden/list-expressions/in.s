section vector
        mov     r0, 1 + 2 * 3 - 4 / 2 % 3
        mov     r1, (1 << 4 | 3) ^ 0xf & ~1
        mov     r2, -7 / 2
        mov     r3, 5 > 3 && 2 == 2 || 0
        mov     r4, !0 + !5
        mov     r5, min(3, 1, 2) + max(4, 9) + abs(-3)
        mov     r6, ceil_div(130, 128) * 100 + align_up(5, 64)
        mov     r7, strlen("four") + log2(1024) + int(2.75)
        mov     r8, 0b1010_0101
        mov     r9, 0o17 + 'a' + 'ab'
        mov     r10, "a" == "a"
        mov     r11, __PMAX__ + __PSUM_BANK__ + __GEN__
        halt
