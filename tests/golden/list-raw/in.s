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
        tensor_copy float32@sbuf[0,128,0][1][2048], float32@sbuf[0,128,8192,tb][1][2048]
        tensor_copy float32@sbuf[0,128,0,ta][1,32][32,64], tb.ap([[32,64],[1,32]])
        tensor_copy float32@sbuf[0,r4<=64,0,ta][1][4], float32@sbuf[64,r4<=64,8192,tb][1][4]
        tensor_copy float32@sbuf[0,128,0+r3*1,ta][1][r6<=4], float32@sbuf[0,128,8192+r3*1+r5*8,tb][1][r6<=4]
        halt $s1++
