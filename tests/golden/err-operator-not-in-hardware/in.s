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
        tensor_tensor ta, tb, tc, op=divide
        tensor_scalar ta, tb, op0=mult, imm0=2, op1=mod, imm1=3
        halt $s1++
