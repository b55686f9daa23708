; Three engines, each waiting for the one before; the store is the last.
        target  trn2
c       tensor  float32[128, 64], output
t0      tile    sbuf float32[128, 64]
t1      tile    sbuf float32[128, 64]
made    sem
copied  sem
q       queue   rings=2, dge=hwdge
section vector
        memset  t0, 1.0  $made++
        halt
section scalar
        activate t1, t0, fn=exp  $made>=1  $copied++
        halt
section sync
        dma_copy c, t1, queue=q  $copied>=1
        halt
