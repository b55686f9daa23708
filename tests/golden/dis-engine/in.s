a       tile    sbuf float32[128, 64]
section vector
top:    memset  a, 1.5
        jmp     top
section gpsimd
        memset  a, 2
.e:     jmp     .e
