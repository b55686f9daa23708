target trn1
a  tensor float32[128, 64], input
b  tensor float32[128, 64], output
ta tile sbuf float32[128, 64]
in  sem
out sem
ql queue rings=16, dge=none
qs queue dge=none
dma ql, ta[0:64, :], a[0:64, :]
dma ql, ta[64:128, :], a[64:128, :]
section sync
        dma_trigger ql, 2 $in
        dma_copy b, ta, queue=qs  $in>=32 $out
        nop $out>=16
        halt
