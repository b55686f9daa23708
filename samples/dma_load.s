; One load of a whole tensor through sixteen rings; vector waits for its semaphore.
;   -D TARGET=name  -D P=partitions  -D COLS=elements of a row  -D TYPE=type  -D DGE=none|swdge
        target  TARGET
x       tensor  TYPE[P, COLS], input
t       tile    sbuf TYPE[P, COLS]
loaded  sem
q       queue   rings=16, dge=DGE
section gpsimd
        dma_copy  t, x, queue=q  $loaded
        halt
section vector
        nop       $loaded>=16
        halt
