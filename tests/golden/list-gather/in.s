target trn2
a tensor float32[512, 64], input
i tile sbuf int32[128, 1]
t tile sbuf float32[128, 64]
d tile sbuf int32[1, 1]
s sem
g queue dge=swdge
section gpsimd
        dma_copy t, a[0:128, :].gather(i), queue=g, oob=skip $s
        dma_copy t[0:1, :], a[(d[0,0]):+1, :], queue=g $s
        dma_copy t[0:1, :], a[(d)+3, :], queue=g $s
        halt
