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
        memset flot32@sbuf[0,128,0][1][4], 0
        memset float32@dram[0,128,0][1][4], 0
        memset float32@sbuf[0,129,0][1][4], 0
        memset float32@sbuf[0,128,0][1,2][4], 0
        memset float32@sbuf[0,128][1][4], 0
        memset float32@sbuf[0,128,0,s1][1][4], 0
        memset float32@sbuf[0,128,0+4][1][4], 0
        memset float32@hbm[ta,0][1][4], 0
        halt $s1++
