; y = x * x + b, where b is one block of 128 rows. Scalar squares, vector adds. Only vector waits
; for b, and only once, before its loop: nothing overwrites tb. The store now waits for vector.
        target  trn2
%ifndef BUFS
%define BUFS 2
%endif
x       tensor  float32[1024, 512], input
b       tensor  float32[128, 512], input
y       tensor  float32[1024, 512], output
tb      tile    sbuf float32[128, 512]
b_there sem
in      queue   dge=hwdge
out     queue   dge=swdge
%assign i 0
%rep BUFS
tx%+i      tile    sbuf float32[128, 512]
ty%+i      tile    sbuf float32[128, 512]
loaded%+i  sem
squared%+i sem
added%+i   sem
stored%+i  sem
%assign i i + 1
%endrep

section sync
        dma_copy  tb, b, queue=in                  $b_there
        mov       r0, 0
        mov       r1, 0
.next:
%assign i 0
%rep BUFS
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
.next:
%assign i 0
%rep BUFS
        nop                                        $stored%+i>=r1
        activate  ty%+i, tx%+i, fn=square          $loaded%+i>=r0   $squared%+i++
%assign i i + 1
%endrep
        add       r0, r0, 16
        add       r1, r1, 16
        ble       r0, 8 * 16 / BUFS, .next
        halt

section vector
        nop                                        $b_there>=16     ; once
        mov       r1, 1
.next:
%assign i 0
%rep BUFS
        tensor_tensor ty%+i, ty%+i, tb, op=add     $squared%+i>=r1  $added%+i++
%assign i i + 1
%endrep
        add       r1, r1, 1
        ble       r1, 8 / BUFS, .next
        halt

section gpsimd
        mov       r0, 0
        mov       r1, 1
.next:
%assign i 0
%rep BUFS
        dma_copy  y[r0:+128, :], ty%+i, queue=out  $added%+i>=r1    $stored%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, 1024, .next
        halt
