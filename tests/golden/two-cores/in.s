a       tensor  float32[128, 64], input
t       tile    sbuf float32[128, 64]
go      sem     core=1
go0     sem
five    sem     5, core=1
q0      queue   dge=none
q1      queue   dge=none, core=1
        dma     q0, t, a
        dma     q1, t, a
section sync
        dma_trigger q0, 1   $go0
        nop     $go++
        halt
section sync core=1
l:      dma_trigger q1, 1   $five
        event_semaphore     $S[0,0]>=16 $S[6]=2
        jmp     l
section sync
.l:     nop     $S[1,6]>=2
        jmp     .l
