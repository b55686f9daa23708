; c = a + b, 128 rows at a time: loads on sync, add on vector, store after it on scalar.
; One set of tiles, so a load waits until the block before it has been added.
        target  trn2
%define ROWS 128

a       tensor  float32[512, 2048], input
b       tensor  float32[512, 2048], input
c       tensor  float32[512, 2048], output

ta      tile    sbuf float32[ROWS, 2048]
tb      tile    sbuf float32[ROWS, 2048]
tc      tile    sbuf float32[ROWS, 2048]

loaded  sem                             ; + 32 a block: two loads of sixteen rings
added   sem                             ; + 1 a block
stored  sem                             ; + 16 a block
qload   queue   rings=16, dge=hwdge
qstore  queue   rings=16, dge=hwdge

section sync
        mov       r0, 0                 ; first row of this block
        mov       r1, 0                 ; blocks that must have been added
.block: dma_copy  ta, a[r0:+ROWS, :], queue=qload   $added>=r1  $loaded
        dma_copy  tb, b[r0:+ROWS, :], queue=qload               $loaded
        add       r0, r0, ROWS
        add       r1, r1, 1
        blt       r0, 512, .block
        halt

section vector
        mov       r0, 32                ; loads that must be there
        mov       r1, 0                 ; stores that must be done
.block: nop                             $stored>=r1
        tensor_tensor tc, ta, tb, op=add  $loaded>=r0  $added++
        add       r0, r0, 32
        add       r1, r1, 16
        ble       r0, 32 * (512 / ROWS), .block
        halt

section scalar
        mov       r0, 0
        mov       r1, 1
.block: dma_copy  c[r0:+ROWS, :], tc, queue=qstore  $added>=r1  $stored
        add       r0, r0, ROWS
        add       r1, r1, 1
        blt       r0, 512, .block
        halt
