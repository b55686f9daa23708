; A race: nothing tells the transfer that t1 is there.
        target  trn2
c       tensor  float32[128, 4], output
t0      tile    sbuf float32[128, 4]
t1      tile    sbuf float32[128, 4]
made    sem
q       queue   rings=16, dge=hwdge
section vector
        memset  t0, 1.0  $made++
        halt
section scalar
        tensor_copy t1, t0  $made>=1
        halt
section gpsimd                          ; runs, and leaves no event
        mov     r1, 1
        halt
section sync
        dma_copy c, t1, queue=q
        halt
