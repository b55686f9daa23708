target trn2
K    equ 4
F    equ 1.5
a    tensor float16[3, 5], input
t    tile sbuf bfloat16[128, 8 * K], at=[0, 256]
s    sem 9
section sync
        mov r0, K
        mov r1, a.shape[1]
        mov r2, sizeof(a)
        mov r3, addr(t) + t.bytes
        mov r4, t.ndim * t.itemsize
        mov r5, s
        nop $s>=K*4 $s++
        halt
