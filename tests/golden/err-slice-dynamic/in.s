target trn2
a  tensor float32[512, 2048], input
c  tensor float32[512, 2048], output
ta tile sbuf float32[128, 2048]
tb tile sbuf float32[128, 2048]
tc tile sbuf float32[128, 2048]
ps tile psum float32[128, 512]
s1 sem
q  queue dge=hwdge
section vector
        memset ta[r0:+4, :], 0
        memset ta[r0, :], 0
        memset ta[:, r0:], 0
        memset ta[:, 0:r0], 0
        memset ta[:, 0:+r0], 0
        memset ta[0:+r0<=4, 0:+r1<=4], 0
        memset ta[::2, :], 0
        memset ta[:, r0:+r1<=4000], 0
        halt $s1++
