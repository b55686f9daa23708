x       tile    sbuf float32[128, 64]
m       tile    sbuf uint8[128, 64]
r       tile    sbuf float32[128, 1]
section vector
        select_reduce x, x, 0.0, pred=m, reduce_res_negate
        select_reduce x, x, 0.0, pred=m, reduce_res_negate, reduce_res=x
        select_reduce x, x, 0.0, pred=m, reduce_result=r
        tensor_copy x, x, reduce_res=r
        exponential x, x, reduce_res=r
        halt
