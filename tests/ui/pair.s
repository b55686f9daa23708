; Two cores: each loads its half, gives it to the other, and adds what it was given.
        target  trn2
ready   sem     core=*
given   sem     core=*
added   sem     core=*
q       queue   dge=hwdge, core=*
x       tensor  float32[2, 128, 64]
y       tensor  float32[2, 128, 64], output
own     tile    sbuf float32[128, 64]
other   tile    sbuf float32[128, 64]
sum     tile    sbuf float32[128, 64]
section sync core=*
        dma_copy own, x[CORE], queue=q    $ready
        nop                               $ready>=16
        dma_copy other.peer, own, queue=q $peer.given
        dma_copy y[CORE], sum, queue=q    $added>=1
        halt
section vector core=*
        tensor_tensor sum, own, other, op=add  $given>=16 $added++
        halt
