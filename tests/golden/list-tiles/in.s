target trn2
a0 tile sbuf uint8[128, 100]
a1 tile sbuf uint8[64, 100]
a2 tile sbuf uint8[64, 100], part=64
a3 tile sbuf uint8[128, 10], align=4
f0 tile sbuf uint8[128, 4096], at=8192
g0 tile sbuf uint8[128, 512], overlay=g
g1 tile sbuf uint8[128, 8192], overlay=g
g2 tile sbuf uint8[128, 256], overlay=g
b0 tile psum float32[128, 512]
b1 tile psum float32[128, 4]
b2 tile psum float32[32, 1024], banks=2
b3 tile psum float32[32, 8], at=[64, 14336]
v  tile sbuf float32[16]
e0 tile sbuf float32[16, 2, 3, 4, 5]
section vector
        memset a0, 0
        halt
