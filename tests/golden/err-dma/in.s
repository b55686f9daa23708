target trn2
a tensor float32[128, 4], input
t tile sbuf float32[128, 4]
s sem
q queue dge=hwdge
n queue dge=none
dma q, t, a
dma n, t, a[0:64, :]
dma n, t, a $s
dma n t, a
dma 5, t, a
dma n, t, a[r0:+128, :]
section sync
        dma_trigger n, 1
        dma_trigger q, 1
        halt
