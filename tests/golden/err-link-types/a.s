t       tile    sbuf float32[8, 8]
u       tile    sbuf float32[8, 8], part=32
x       tensor  float32[8, 8]
q       queue   dge=none
q2      queue   dge=hwdge, owner=sync
global  t, u, x, q, q2
section vector
        halt
