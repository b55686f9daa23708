        target  trn3
x       tile    sbuf float32[128, 64]
y       tile    sbuf float32[128, 64]
m       tile    sbuf uint8[128, 64]
b       tile    sbuf float32[128, 1]
r       tile    sbuf float32[128, 1]
s       sem
section vector
        select_reduce y, x, 0.0, pred=m, reduce_res=r   $s>=1 $s++
        select_reduce y, x, 0.0, pred=m, reduce=reduce, reduce_res=r, reduce_res_negate
        select_reduce y, x, 0.0, pred=m
        range_select y, x, bound0=b, bound1=b, op0=is_ge, op1=is_lt, reduce_res=r
        tensor_scalar_reduce y, x, op0=mult, imm0=2.0, op1=add, reduce_res=r
        tensor_scalar_reduce y, x, op0=mult, imm0=2.0, op1=add, reduce=load_reduce, imm1=b, reduce_res=r
        exponential y, x, reduce_res=r, reduce_res_negate=true  $s>=2 $s++
        halt
section scalar
        activate2 y, x, fn=exp, op0=mult, imm0=1.0, op1=add, imm1=0.0, reduce_op=add, reduce_res=r
        activation y, x, fn=exp, reduce_res=r, reduce_res_negate
        activation y, x, fn=exp, reduce=reduce, reduce_res=r
        activation_reduce y, x, r, fn=exp
        halt
