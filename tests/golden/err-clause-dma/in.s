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
        dma_copy ta, a[0:128, :], queue=q $s1++
        dma_copy ta, a[0:128, :], queue=q $s1 $s1
        add r0, r0, 1 $s1++@read
        halt $s1++
