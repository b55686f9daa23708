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
        tensor_copy ta[:, 0:16], tb.ap([[0,4],[1,4]], offset=8)
        tensor_copy ta[:, 0:512], tb[:, 0:1].broadcast(1, 512)
        tensor_copy ta[:, 0:8].view(uint8), tb[:, 8:16].view(uint8)
        tensor_copy ta[0:32, :].view(bfloat16), tb[32:64, :].view(bfloat16)
        tensor_copy ta[:, 3].view(int32), tb[:, 4].view(int32)
        halt $s1++
