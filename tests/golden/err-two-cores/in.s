go      sem     core=2
q1      queue   core=1
q0      queue   core=0, dge=none
section sync core=1
        dma_trigger q0, 1
l:      jmp     m
section sync
m:      jmp     l
section vector core=1
        nop
