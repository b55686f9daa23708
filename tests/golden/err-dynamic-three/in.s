target trn2
a  tensor float32[512, 2048], input
c  tensor float32[512, 2048], output
ta tile sbuf float32[128, 2048]
tb tile sbuf float32[128, 2048]
tc tile sbuf float32[128, 2048]
ps tile psum float32[128, 512]
s1 sem
q  queue dge=hwdge
cube tensor float32[4,4,4]
section sync
        dma_copy ta[0:1, 0:1], cube[r0, r1, r2], queue=q
        halt $s1++
