; h[t] = a[t] h[t - 1] + x[t] along rows of 2048, 128 rows at a time.
;   -D ROWS=n
        target  trn2
a       tensor  float32[ROWS, 2048], input
x       tensor  float32[ROWS, 2048], input
h       tensor  float32[ROWS, 2048], output
ta      tile    sbuf float32[128, 2048]
tx      tile    sbuf float32[128, 2048]
th      tile    sbuf float32[128, 2048]
full    sem
done    sem
stored  sem
qin     queue   rings=16, dge=hwdge
qout    queue   rings=16, dge=hwdge

section sync
        mov       r0, 0
        mov       r1, 0
.next:  dma_copy  ta, a[r0:+128, :], queue=qin  $done>=r1 $full
        dma_copy  tx, x[r0:+128, :], queue=qin  $full
        add       r0, r0, 128
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt

section vector
        mov       r0, 0
        mov       r1, 32
        mov       r2, 0
.next:  nop       $stored>=r2
        tensor_tensor_scan th, ta, tx, 0.0, op0=mult, op1=add  $full>=r1 $done++
        add       r0, r0, 128
        add       r1, r1, 32
        add       r2, r2, 16
        blt       r0, ROWS, .next
        halt

section scalar
        mov       r0, 0
        mov       r1, 1
.next:  dma_copy  h[r0:+128, :], th, queue=qout  $done>=r1 $stored
        add       r0, r0, 128
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt
