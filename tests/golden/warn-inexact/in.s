target trn2
a tile sbuf float32[128, 8]
section vector
        memset a, 16777217
        memset a, 16777216
        halt
