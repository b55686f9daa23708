large   tile    sbuf float32[128, 40000]
p2      tile    psum float32[128, 512], at=1024
section vector
        memset  large, 0
        memset  p2, 0
        halt
