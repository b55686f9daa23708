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
        mov r64, 1
        mov x, 1
        add r0, 1, r1
        mov r0, 4294967296
        mov r0, -2147483649
        mov r0, 1.5
        halt $s1++
