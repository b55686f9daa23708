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
        tensor_copy ta, tb $s1
        nop $
        nop $s1>=1 $s1>=2
        nop $s1++ $s1--
        nop $s1>=-1
        nop $s1+=r0
        nop $s1+=2147483648
        nop $S[256]>=1
        nop $S[2,0]>=1
        nop $s1++@done
        nop $s1>=
        halt $s1++
