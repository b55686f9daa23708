; A static transfer of trn1, in packets, while gpsimd works.
        target  trn1
a       tensor  float32[128, 2048]
t       tile    sbuf float32[128, 2048]
u       tile    sbuf float32[128, 64]
loaded  sem
q       queue   rings=4, dge=none
section sync
        dma_copy t, a, queue=q  $loaded
        nop     $loaded>=4
        halt
section gpsimd
        memset  u, 1.0
        halt
section vector
        tensor_copy u, t[:, 0:64]  $loaded>=4
        halt
