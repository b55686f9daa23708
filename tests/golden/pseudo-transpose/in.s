a       tile    sbuf bfloat16[64, 128]
i       tile    sbuf bfloat16[64, 64]
p0      tile    psum bfloat16[128, 64]
b       tile    sbuf float32[32, 16]
c       tile    sbuf float32[16, 32]
s       sem
section tensor
        nc_transpose p0, a, identity=i  $s>=1 $s++
        halt
section vector
        nc_transpose c, b   $s>=2 $s-=2
        halt
