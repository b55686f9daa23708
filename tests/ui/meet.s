; Two cores meet twice: core 1 is late at the sendrecv of a queue, core 0 at that of gpsimd.
        target  trn2
made    sem     core=*
q       queue   dge=hwdge, core=*
a       tile    sbuf float32[128, 64]
b       tile    sbuf float32[128, 64]
c       tile    sbuf float32[128, 64]
d       tile    sbuf float32[128, 64]
section gpsimd core=*
        memset  a, 1.0
        memset  c, 2.0                          $made++
        loop    r1, 0, 1 + 2000 * (1 - CORE)
        nop
        endloop
        sendrecv_gpsimd b, a, pipe=2
        memset  a, 3.0
        halt
section sync core=*
        loop    r1, 0, 1 + 6000 * CORE
        nop
        endloop
        sendrecv d, c, queue=q, pipe=0          $made>=1 $made
        nop                                     $made>=17
        halt
