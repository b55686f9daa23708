target trn2
        nop
x:      halt
        tensor_copy a, b
