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
        memset ta[0:129, :], 0
        memset ta[:, 0:2049], 0
        memset ta[:, 2048], 0
        memset ta[128, :], 0
        memset ta[5:5, :], 0
        memset ta[:, 7:3], 0
        memset ta[:, :, 0], 0
        memset ta[:, -1], 0
        memset ta[:, r0:+2049], 0
        memset ta[:, 10:+2040], 0
        halt $s1++
