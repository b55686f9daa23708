target trn2
a tensor float32[128, 4], input
t tile sbuf float32[128, 4]
s sem
q queue dge=hwdge
section sync
        dma_copy t, a, queue=q $s
        halt
section scalar
        dma_copy t, a, queue=q $s
        halt
section vector
        dma_copy t, a, queue=q $s
        halt
