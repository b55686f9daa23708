a       tensor  bfloat16[3, 4, 5]
t       tile    sbuf float32[64, 10], at=[64, 256]
n       equ     a.shape[1] * 100 + a.ndim * 10 + a.itemsize
section vector
        mov     r0, n
        mov     r1, a.bytes
        mov     r2, sizeof(t) + t.offset + addr(t) + t.part
        mov     r3, t.shape[0] + t.shape[1]
        memset  t, 0
        halt
