target trn1
a tile sbuf float32[128, 4]
b tile sbuf float32[128, 4]
section scalar
        tensor_copy a, b
        halt
section vector
        exponential a, b
        halt
