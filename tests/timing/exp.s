; y = exp(x) of [P, N] bfloat16: the kernel of the introduction to DMA. One load, one activate after
; it, one store. The load is triggered at time 0, or by gpsimd when it has made the descriptors.
        target  TARGET
x       tensor  bfloat16[P, N]
y       tensor  bfloat16[P, N]
t       tile    sbuf bfloat16[P, N]
u       tile    sbuf bfloat16[P, N]
loaded  sem
ready   sem
stored  sem
q       queue   rings=16, dge=DGE
%ifdef STATIC
qs      queue   rings=16, dge=DGE
section sync
        dma_copy  t, x, queue=q  $loaded
        halt
section gpsimd
        dma_copy  y, u, queue=qs  $ready>=1  $stored
%else
section gpsimd
        dma_copy  t, x, queue=q  $loaded
        dma_copy  y, u, queue=q  $ready>=1  $stored
%endif
        halt
section scalar
        activate  u, t, fn=exp  $loaded>=16  $ready++
        halt
section vector
        nop       $stored>=16
        halt
