d       tile    sbuf float32[128, 20, 100]
x       tile    sbuf float32[128, 4096]
i       tile    sbuf uint32[128, 2000]
section gpsimd
        nc_n_gather d[:, :, 0:80], x, i[:, 0:1600]
        nc_n_gather d, x, i[:, 0:1600]
        nc_n_gather d, x
        halt
