; Near misses: nothing of this is to be reported.
        target trn2
a       tensor float32[128, 64], input
ta      tile   sbuf float32[128, 64]
tb      tile   sbuf float32[128, 64]
tc      tile   sbuf float32[128, 64]
acc     tile   sbuf float32[128, 64]
s       sem
n       sem
u       sem
once    sem
q       queue rings=16, dge=hwdge
section sync
        dma_copy ta, a, queue=q $s
        dma_copy tb, a, queue=q $s
        nop $s>=32                      ; sixteen rings, twice
        nop $u==4                       ; reached by steps of two
        halt
section vector
        mov r0, 0
        mov r1, 1
.l:     nop $n>=r1                      ; counts in a register
        nop $once>=1                    ; from code that runs once
        tensor_copy tc, acc             ; written in the turn before
        tensor_tensor acc, ta, tc, op=add
        add r0, r0, 1
        add r1, r1, 1
        blt r0, 4, .l
        event_semaphore $u+=2
        event_semaphore $u+=2
        halt
section gpsimd
        nop $once++
        mov r0, 0
.l:     event_semaphore $n++
        add r0, r0, 1
        blt r0, 4, .l
.take:  event_semaphore $n>=1 $n--      ; takes what it waited for
        jmp .take
section scalar
        activate tb, tb, fn=square, reduce=reset_reduce   ; for its sum alone
        act_read_acc acc[:, 0:1]
        halt
