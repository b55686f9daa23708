big     tile    sbuf float32[128, 40000]
p       tile    psum float32[128, 512], at=0
section vector
        memset  big, 0
        memset  p, 0
        halt
