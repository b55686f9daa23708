; The tutorial's double.s for ROWS rows, 4096 of them: every wait counts on, and only the ends of
; the loops change. A block takes 1.70 us with two buffers and 1.34 us with eight, when the DMA
; engines always have work. In 1024 rows the first load and the last store are a larger part.
        target  trn2
%ifndef BUFS
%define BUFS 2
%endif
%ifndef ROWS
%define ROWS 4096
%endif
x       tensor  float32[ROWS, 512], input
y       tensor  float32[ROWS, 512], output
in      queue   dge=hwdge
out     queue   dge=swdge
%assign i 0
%rep BUFS
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
%rep BUFS
        dma_copy  tx%+i, x[r0:+128, :], queue=in   $squared%+i>=r1  $loaded%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, ROWS, .next
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
        ble       r0, ROWS / 128 * 16 / BUFS, .next
        halt

section gpsimd
        mov       r0, 0
        mov       r1, 1
.next:
%assign i 0
%rep BUFS
        dma_copy  y[r0:+128, :], ty%+i, queue=out  $squared%+i>=r1  $stored%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt
