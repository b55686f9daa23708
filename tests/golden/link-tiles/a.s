a0      tile    sbuf float32[128, 100]
a1      tile    sbuf float32[128, 16], at=8192
p       tile    psum float32[128, 512]
o1      tile    sbuf float32[128, 16], overlay=g
o2      tile    sbuf float32[128, 32], overlay=g
w       tile    sbuf float32[64, 16], part=64
section vector
        tensor_copy a0[:, 0:16], a1
        tensor_copy w, w
        memset  o1, 0
        halt
