        target  trn3
w       tile    sbuf float8_e4m3fn_x4[128, 128]
x       tile    sbuf float8_e4m3fn_x4[128, 512]
ws      tile    sbuf uint8[128, 128]
xs      tile    sbuf uint8[128, 512]
p0      tile    psum float32[128, 512]
s       sem
section tensor
        nc_matmul_mx p0, w, x, ws, xs, acc=write   $s>=1 $s--
        nc_matmul_mx p0, w, x, ws, xs, tile_row=0, tile_rows=128
        halt
