target trn2
section sync core=1
a tensor float32[2, 3, 4, 5, 6, 7, 8], input
t tile sbuf float32[128, 315]
s sem
q queue dge=hwdge
section sync
        dma_copy t, a, queue=q $s
        dma_copy t[0:2, 0:270], a[:, :, 1, :, ::2, 0:6, 3], queue=q $s
        halt
