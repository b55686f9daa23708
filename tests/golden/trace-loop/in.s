; A loop of loads, sums and stores through one buffer: every engine waits in turn.
        target  trn2
a       tensor  float32[512, 256]
c       tensor  float32[512, 256], output
t       tile    sbuf float32[128, 256]
u       tile    sbuf float32[128, 256]
loaded  sem
added   sem
stored  sem
qi      queue   rings=4, dge=hwdge
qo      queue   rings=4, dge=hwdge
section sync
        mov     r0, 0
        mov     r1, 0
.l:     dma_copy t, a[r0:+128, 0:256], queue=qi  $added>=r1  $loaded
        add     r1, r1, 1
        add     r0, r0, 128
        blt     r0, 512, .l
        halt
section vector
        mov     r1, 4
        mov     r2, 0
.l:     nop     $stored>=r2
        tensor_tensor u, t, t, op=add  $loaded>=r1  $added++
        add     r1, r1, 4
        add     r2, r2, 4
        ble     r1, 16, .l
        halt
section scalar
        mov     r0, 0
        mov     r1, 1
.l:     dma_copy c[r0:+128, 0:256], u, queue=qo  $added>=r1  $stored
        add     r1, r1, 1
        add     r0, r0, 128
        blt     r0, 512, .l
        halt
