target trn2
a tile sbuf int64[128, 8]
b tile sbuf float32[128, 8]
i tile sbuf int32[128, 8]
k tile sbuf int32[128, 8]
s tile sbuf float32[128, 1]
section vector
        memset a, -0.0
        memset a, nan
        memset a, float(0x7fc00001)
i tile sbuf int32[128, 8]
        memset a, r3
        tensor_scalar a, b, op0=mult, imm0=0.1, op1=add, imm1=s
        tensor_scalar i, k, op0=bitwise_and, imm0=0xff
        tensor_scalar i, k, op0=bitwise_xor, imm0=-1
        tensor_reduce a[:, 0:1], b, op=add, negate
        tensor_reduce a[:, 0:1], b, op=add, negate=1
        tensor_reduce a[:, 0:1], b, op=add, negate=false
        halt
top:    memset  a, 1.5  $s++
section gpsimd
        iota i, pattern=[[1, 8]], offsetshuffle=r1, multiplier=-8
        affine_select a, b, -1e30, pattern=[[-1, 8]], multiplier=1, cmp=is_ge
        halt
