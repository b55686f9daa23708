; c = a + b
        target  trn2
%define ROWS 128
%macro step 2
        add %1, %1, %2
%endmacro

a       tensor  float32[512, 2048], input
b       tensor  float32[512, 2048], input
c       tensor  float32[512, 2048], output

ta      tile    sbuf float32[ROWS, 2048]
tb      tile    sbuf float32[ROWS, 2048]
tc      tile    sbuf float32[ROWS, 2048]

loaded  sem
added   sem
stored  sem
qload   queue   rings=16, dge=hwdge
qstore  queue   rings=16, dge=hwdge

section sync
        mov       r0, 0                 ; first row of this block
        mov       r1, 0                 ; stores that must be done
.block: dma_copy  ta, a[r0:+ROWS, :], queue=qload    $stored>=r1  $loaded
        dma_copy  tb, b[r0:+ROWS, :], queue=qload                 $loaded
        step r0, ROWS
        add       r1, r1, 16
        blt       r0, 512, .block
        halt

section vector
        mov       r0, 32
        mov       r1, 0
add_block:
        tensor_tensor tc, ta, tb, op=add      $loaded>=r0  $added++
        add r0, r0, 32
        add r1, r1, 1
        blt r1, 4, add_block
        halt
section scalar
        loop r0, 0, 512, ROWS
        add r1, r1, 1
        dma_copy c[r0:+ROWS, :], tc, queue=qstore $added>=r1 $stored
        endloop
        halt
