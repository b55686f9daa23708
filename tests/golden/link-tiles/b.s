a0      tile    sbuf float32[128, 100], align=1024
p       tile    psum float32[128, 512], banks=2
o1      tile    sbuf float32[128, 16], overlay=g
section gpsimd
        memset  a0, 1
        memset  o1, 1
        halt
