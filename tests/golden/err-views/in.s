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
        tensor_copy ta.vieww(int8), tb
        tensor_copy ta.view(int99), tb
        tensor_copy ta[:, ::2].view(uint8), tb
        tensor_copy ta[:, 0:3].view(uint64), tb
        tensor_copy ta, tb.broadcast(1, 4)
        tensor_copy ta, tb.broadcast(0, 4)
        tensor_copy ta, tb.broadcast(2, 4)
        tensor_copy ta.ap([[1,4],[1,4],[1,4],[1,4],[1,4]]), tb
        tensor_copy ta.ap([1,4]), tb
        tensor_copy ta.ap([[1,0]]), tb
        halt $s1++
