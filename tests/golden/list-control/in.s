section sync
        jmp     .a
.a:     beq     r0, r1, .b
        bne     r0, -5, .a
        bltu    r0, 0xffffffff, .a
        bgeu    r3, r4, .b
.b:     call    r63, fn
        not     r1, r2
        not     r1, 5
        sra     r1, r2, 31
        div     r1, r1, r2
        drain
        notify  7
        notify  r7
        sem_range_clear 0, 256
        event_semaphore $S[5]>=32 $S[5]-=32
        halt
fn:     ret     r63
