; Weights and moving tiles, sums over two of them in PSUM, copied out by vector.
        target  trn2
w0      tile    sbuf bfloat16[128, 128]
w1      tile    sbuf bfloat16[128, 128]
x       tile    sbuf bfloat16[128, 512]
y       tile    sbuf float32[128, 512]
sum     tile    psum float32[128, 512]
ready   sem
summed  sem
section vector
        memset  w0, 1.0
        memset  w1, 2.0
        memset  x, 3.0  $ready++
        tensor_copy y, sum  $summed>=1
        halt
section tensor
        ldweights w0  $ready>=1
        matmul  sum, x, acc=write
        ldweights w1
        matmul  sum, x, acc=add  $summed++
        halt
