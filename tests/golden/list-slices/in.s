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
        tensor_copy ta[0:64, 0:512], tb[64:128, 512:1024]
        tensor_copy ta[32:64, ::2], tb[:32, :1024]
        tensor_copy ta[0:1, 5:+16], tb[0:1, 0:+16:4]
        tensor_copy ta[64, 7], tb[0, 9]
        tensor_copy ta[0:+r4<=64, :], tb[0:+r4<=64, :]
        tensor_copy ta[:, r3:+128], tb[:, r3+256:+128]
        tensor_copy ta[:, 0:+r5<=100], tb[:, 0:+r5<=100]
        halt $s1++
