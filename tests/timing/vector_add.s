; c = a + b over ROWS rows of COLS elements, PART rows at a time, descriptors made by gpsimd,
; DEPTH buffers.
        target  trn2
%define DEPTH 4
%assign TILES ROWS / PART
a       tensor  float32[ROWS, COLS]
b       tensor  float32[ROWS, COLS]
c       tensor  float32[ROWS, COLS]
%assign i 0
%rep DEPTH
ta%+i   tile    sbuf float32[PART, COLS]
tb%+i   tile    sbuf float32[PART, COLS]
tc%+i   tile    sbuf float32[PART, COLS]
full%+i   sem
added%+i  sem
stored%+i sem
%assign i i + 1
%endrep
q       queue   rings=16, dge=swdge
section gpsimd
%if TILES == 1
        dma_copy  ta0, a, queue=q              $full0
        dma_copy  tb0, b, queue=q              $full0
        dma_copy  c, tc0, queue=q  $added0>=1  $stored0
%else
        mov       r0, 0                        ; row of the load
        mov       r1, 0                        ; row of the store
        mov       r2, 0                        ; uses of a buffer
        mov       r3, 0                        ; 16 times that
.next:
%assign i 0
%rep DEPTH
        dma_copy  ta%+i, a[r0:+PART, :], queue=q  $added%+i>=r2  $full%+i
        dma_copy  tb%+i, b[r0:+PART, :], queue=q                 $full%+i
        add       r0, r0, PART
%assign i i + 1
%endrep
        add       r2, r2, 1
%assign i 0
%rep DEPTH
        dma_copy  c[r1:+PART, :], tc%+i, queue=q  $added%+i>=r2  $stored%+i
        add       r1, r1, PART
%assign i i + 1
%endrep
        add       r3, r3, 16
        blt       r0, ROWS, .next
%endif
%assign i 0
%rep DEPTH
        nop       $stored%+i>=r3
%assign i i + 1
%endrep
%if TILES == 1
        nop       $stored0>=16
%endif
        halt
section vector
%if TILES == 1
        tensor_tensor  tc0, ta0, tb0, op=add  $full0>=32  $added0++
%else
        mov       r0, 0
        mov       r1, 32
        mov       r2, 0
.next:
%assign i 0
%rep DEPTH
        nop                                              $stored%+i>=r2
        tensor_tensor  tc%+i, ta%+i, tb%+i, op=add  $full%+i>=r1  $added%+i++
%assign i i + 1
%endrep
        add       r0, r0, DEPTH
        add       r1, r1, 32
        add       r2, r2, 16
        blt       r0, TILES, .next
%endif
        halt
