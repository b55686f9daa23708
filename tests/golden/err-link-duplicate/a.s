t       tile    sbuf float32[8, 8]
in      tensor  float32[8], input
global  t
section vector
work:   tensor_copy t, t
        halt
global  work
