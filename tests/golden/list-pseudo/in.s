target trn2
w  tile sbuf bfloat16[128, 128]
x  tile sbuf bfloat16[128, 512]
e  tile sbuf float32[128, 512]
r  tile sbuf float32[128, 1]
p0 tile psum float32[128, 512]
ready sem
done  sem
section tensor
        nc_matmul p0, w, x, acc=write  $ready>=16 $done++
        halt
section scalar
        activation e, p0, fn=exp, scale=0.5  $done>=1
        activation e, p0, fn=exp, bias=r, reduce=reset_reduce, reduce_res=r $ready--
        activation_reduce e, p0, r, fn=exp   $done>=1 $ready++
        halt
