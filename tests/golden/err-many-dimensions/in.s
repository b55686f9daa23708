target trn2
a tensor float32[4, 4, 4, 4, 4, 4], input
t tile sbuf float32[128, 8]
s sem
q queue dge=hwdge
section sync
        dma_copy t, a[::2, ::2, ::2, ::2, ::2, ::2], queue=q $s
        halt
