a       tile    sbuf float32[128, 64]
s       sem
section vector
top:    memset  a, 1.5  $s++
        blt     r0, 5, top
        halt
