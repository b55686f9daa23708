a       tile    sbuf float32[128, 8]
b       tile    sbuf float32[128, 8]
c       tile    sbuf float32[128, 8]
d       tile    sbuf float32[128, 8]
e       tile    sbuf float32[128, 8], overlay=g
f       tile    sbuf float32[128, 8], overlay=g
q       queue   dge=none
section vector
        tensor_copy b, a
        tensor_copy d, d
        tensor_copy d, e
        memset  f, 0
        halt
