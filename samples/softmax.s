; y = softmax(x) over rows of COLS, 128 rows at a time, two buffers:
;   vector  m = -max(x)
;   scalar  e = exp(x + m), s = sum(e)
;   vector  y = e * (1 / s)
;   -D ROWS=n -D COLS=n   rows a multiple of 256
        target  trn2
%ifndef ROWS
%define ROWS 512
%endif
%ifndef COLS
%define COLS 2048
%endif
%if (ROWS) % 256 != 0
%error ROWS must be a multiple of 256
%endif

x       tensor  float32[ROWS, COLS], input
y       tensor  float32[ROWS, COLS], output

%assign i 0
%rep 2
tx%+i   tile    sbuf float32[128, COLS]
te%+i   tile    sbuf float32[128, COLS]
ty%+i   tile    sbuf float32[128, COLS]
tm%+i   tile    sbuf float32[128, 1]    ; minus the row's maximum
ts%+i   tile    sbuf float32[128, 1]    ; the row's sum, then its reciprocal
full%+i   sem                           ; + 16 a block
maxed%+i  sem                           ; + 1
summed%+i sem                           ; + 1: te and ts are there, tx is free
scaled%+i sem                           ; + 1
stored%+i sem                           ; + 16
%assign i i + 1
%endrep
qload   queue   rings=16, dge=hwdge
qstore  queue   rings=16, dge=swdge

section sync
        mov       r0, 0                 ; first row of the block
        mov       r1, 0                 ; times the buffer must have been summed before
.next:
%assign i 0
%rep 2
        dma_copy  tx%+i, x[r0:+128, :], queue=qload  $summed%+i>=r1  $full%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt

; The maximum of a buffer runs ahead of the scaling of the one before.
section vector
        mov       r0, 16                ; loads
        mov       r1, 1                 ; sums
        mov       r2, 0                 ; stores
.next:
%assign i 0
%rep 2
        tensor_reduce tm%+i, tx%+i, op=max, axes=1, negate=true  $full%+i>=r0  $maxed%+i++
%assign i i + 1
%endrep
%assign i 0
%rep 2
        reciprocal ts%+i, ts%+i         $summed%+i>=r1
        nop                             $stored%+i>=r2
        tensor_scalar ty%+i, te%+i, op0=mult, imm0=ts%+i    $scaled%+i++
%assign i i + 1
%endrep
        add       r0, r0, 16
        add       r1, r1, 1
        add       r2, r2, 16
        ble       r1, (ROWS) / 256, .next
        halt

section scalar
        mov       r0, 1                 ; maxima
        mov       r1, 0                 ; scalings: te and ts are free again
.next:
%assign i 0
%rep 2
        nop                             $scaled%+i>=r1
        activate  te%+i, tx%+i, fn=exp, bias=tm%+i, reduce=reset_reduce  $maxed%+i>=r0
        act_read_acc ts%+i              $summed%+i++
%assign i i + 1
%endrep
        add       r0, r0, 1
        add       r1, r1, 1
        ble       r0, (ROWS) / 256, .next
        halt

section gpsimd
        mov       r0, 0
        mov       r1, 1
.next:
%assign i 0
%rep 2
        dma_copy  y[r0:+128, :], ty%+i, queue=qstore  $scaled%+i>=r1  $stored%+i
        add       r0, r0, 128
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt
