d       tile    sbuf float32[128, 2000]
x       tile    sbuf float32[128, 4096]
i       tile    sbuf uint32[128, 2000]
s       sem
section gpsimd
        nc_n_gather d, x, i     $s>=1 $s++
        nc_n_gather d[:, 0:512], x, i[:, 0:512]  $s>=1 $s++
        nc_n_gather d[:, ::2], x, i[:, 1::2]
        halt
