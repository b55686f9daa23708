d       tile    sbuf float32[1, 64]
x       tile    sbuf float32[128, 64]
section gpsimd
        tensor_partition_reduce d, x, op=add
        halt
