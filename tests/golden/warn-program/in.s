target trn2
a tile sbuf float32[128, 8]
b tile sbuf float32[128, 8]
o0 tile sbuf float32[128, 8], overlay=o
o1 tile sbuf float32[128, 8], overlay=o
s sem
t sem
u sem
section vector
        tensor_copy a, b $s>=1
        memset o0, 0 $u++
        tensor_copy a, o1 $S[40]==1
        nop $t>=0
        jmp out
        nop
        nop
out:    halt
        nop
        loop r0, r1, 8
        jmp out
        endloop
        halt
