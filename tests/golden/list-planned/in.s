target trn2
a tile sbuf float32[128, 8]
b tile sbuf float32[128, 8]
section vector
        max8 a, b
        halt
