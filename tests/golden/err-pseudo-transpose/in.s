a       tile    sbuf bfloat16[64, 128]
i       tile    sbuf bfloat16[64, 32]
i2      tile    sbuf bfloat16[128, 128]
p0      tile    psum bfloat16[128, 64]
b       tile    sbuf float32[64, 32]
c       tile    sbuf float32[32, 64]
section tensor
        nc_transpose p0, a, identity=i
        nc_transpose p0, a, identity=i2
        nc_transpose p0, a
        halt
section vector
        nc_transpose c, b
        nc_transpose c, c, identity=i
        halt
section scalar
        nc_transpose p0, a, identity=i[:, 0:32]
        halt
