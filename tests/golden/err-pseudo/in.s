target trn2
w  tile sbuf bfloat16[128, 128]
x  tile sbuf bfloat16[64, 512]
p0 tile psum float32[128, 512]
s  sem
section tensor
        nc_matmul p0, w, x
        nc_matmul p0, w
        nc_matmul p0, w, x, zero=1
        nc_matmull p0, w, x
        halt $s++
