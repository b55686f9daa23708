target trn2
a  tensor float32[512, 2048], input
c  tensor float32[512, 2048], output
ta tile sbuf float32[128, 2048]
tb tile sbuf float32[128, 2048]
tc tile sbuf float32[128, 2048]
ps tile psum float32[128, 512]
s1 sem
q  queue dge=hwdge
section sync
        dma_copy ta, a[r0:+128, :], queue=q $s1
        dma_copy ta, a[r0-128:+128, :], queue=q $s1
        dma_copy ta[:, 0:1], a[0:128, 5:6], queue=q $s1
        dma_copy ta[0:1, :], a[r3, :], queue=q $s1
        dma_copy ta[0:1, 0:1], a[7, 9], queue=q $s1
        dma_copy ta[0:4, :], a[::128, :], queue=q $s1
        dma_copy ta[0:128, r1:+64], a[r0:+128, r1:+64], queue=q $s1
        halt $s1++
