; Scalar squares the blocks of tile 0, vector those of tile 1. No semaphore changes: each belongs to
; one tile, and now vector waits for those of tile 1 and updates them. The time hardly changes,
; since scalar was at work for only a third of it: both tiles still wait for their transfers.
        target  trn2
x       tensor  float32[1024, 512], input
y       tensor  float32[1024, 512], output
in      queue   dge=hwdge
out     queue   dge=swdge
%assign i 0
%rep 2
tx%+i      tile    sbuf float32[128, 512]
ty%+i      tile    sbuf float32[128, 512]
loaded%+i  sem
squared%+i sem
stored%+i  sem
%assign i i + 1
%endrep

section sync
        mov       r0, 0
        mov       r1, 0
.next:
%assign i 0
%rep 2
        dma_copy  tx%+i, x[r0:+128, :], queue=in   $squared%+i>=r1  $loaded%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, 1024, .next
        halt

section scalar
        mov       r0, 16
        mov       r1, 0
.next:  nop                                        $stored0>=r1
        activate  ty0, tx0, fn=square              $loaded0>=r0     $squared0++
        add       r0, r0, 16
        add       r1, r1, 16
        ble       r0, 4 * 16, .next
        halt

section vector
        mov       r0, 16
        mov       r1, 0
.next:  nop                                        $stored1>=r1
        tensor_tensor ty1, tx1, tx1, op=mult       $loaded1>=r0     $squared1++
        add       r0, r0, 16
        add       r1, r1, 16
        ble       r0, 4 * 16, .next
        halt

section gpsimd
        mov       r0, 0
        mov       r1, 1
.next:
%assign i 0
%rep 2
        dma_copy  y[r0:+128, :], ty%+i, queue=out  $squared%+i>=r1  $stored%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, 1024, .next
        halt
