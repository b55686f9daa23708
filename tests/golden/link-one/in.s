a       tile    sbuf float32[128, 64]
s       sem     7
section gpsimd
x:      iota    a.view(int32), pattern=[[1,64]] $s++
        jmp     x
