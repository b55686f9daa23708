a       tile    sbuf float32[128, 8]
b       tile    sbuf float32[128, 8]
section vector
        memset  float32@sbuf[0,128,0][1][8], 0
        tensor_copy b, a
        tensor_copy float32@sbuf[0,128,64][1][8], float32@sbuf[0,128,32][1][8]
        halt
