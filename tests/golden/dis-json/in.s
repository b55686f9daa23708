x       tensor  float32[128, 64], input
a       tile    sbuf float32[128, 64], overlay=g
s       sem
q       queue   dge=none
        dma     q, a, x
section vector
top:    memset  a, 1.5  $s++
        blt     r0, 5, top
        halt
global  top
