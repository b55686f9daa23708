; What --lint finds: a total that is too low, a value that steps pass over, a wait that holds for good,
; code and tiles that are of no use.
        target trn2
a       tensor float32[128, 64], input
ta      tile   sbuf float32[128, 64]
tb      tile   sbuf float32[128, 64]
tc      tile   sbuf float32[128, 64]
td      tile   sbuf float32[128, 64]
s       sem
n       sem
u       sem
e       sem
q       queue rings=16, dge=hwdge
section sync
        dma_copy ta, a, queue=q $s
        nop $s>=17
        nop $u==3
        halt
.x:     jmp .x
section vector
        tensor_copy tb, tc
        memset tc, 1.0
        mov r0, 0
.l:     nop $n>=1
        add r0, r0, 1
        blt r0, 4, .l
        event_semaphore $u+=2
        halt
section scalar
.l:     nop $e==3
        nop $e+=2
        nop $e+=2
        halt
section gpsimd
.l:     nop $n++
        jmp .l
