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
        nop $s1>=1
        nop $s1>r2 $s1++
        nop $s1==4 $s1--
        nop $s1<=5 $s1+=16
        nop $s1<6 $s1-=0x10
        nop $s1!=7 $s1=0
        event_semaphore $S[12]>=32 $S[12]-=32
        tensor_copy ta, tb $s1++@read
        tensor_copy ta, tb $s1++@complete
        halt $s1++
