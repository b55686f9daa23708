; c[M, N] = a[K, M]^T x b[K, N] in fp32, in the order m, n, k, descriptors made by gpsimd: every tile
; loaded for every product, or with HOIST those of a once per m, while the products of the m before
; are made.
        target  trn2
%define M 4096
%define N 8192
%define K 8192
%ifdef HOIST
%define DEPTH 16                               ; the kernel has tiles of b for a whole sum, 64
%else
%define DEPTH 4
%endif
%assign KT K / 128
%assign SUMS M / 128 * (N / 512)
a       tensor  float32[K, M]
b       tensor  float32[K, N]
c       tensor  float32[M, N]
%assign NT N / 512
%ifdef HOIST
%assign i 0
%rep 2                                         ; tiles of a, KT of them side by side
ta%+i   tile    sbuf float32[128, KT*128]
afull%+i  sem
adone%+i  sem
%assign i i + 1
%endrep
%endif
%assign i 0
%rep DEPTH
%ifndef HOIST
ta%+i   tile    sbuf float32[128, 128]
%endif
tb%+i   tile    sbuf float32[128, 512]
full%+i   sem
used%+i   sem
%assign i i + 1
%endrep
%assign i 0
%rep 2
sum%+i  tile    psum float32[128, 512]
tc%+i   tile    sbuf float32[128, 512]
summed%+i sem
copied%+i sem
stored%+i sem
%assign i i + 1
%endrep
q       queue   rings=16, dge=swdge

%ifdef HOIST
; r0 m, r1 n, r2 k; r3 uses of a load buffer; r4 of a sum; r5, r6 m and n of the store; r7 k of the
; next m's a, r9 its m; r10, r11 uses of a's buffers.
section gpsimd
        mov       r0, 0
        mov       r3, 0
        mov       r4, 0
        mov       r5, 0
        mov       r6, 0
        mov       r7, 0
        mov       r10, 0
.first: dma_copy  ta0[:, r7:+128], a[r7:+128, 0:128], queue=q  $afull0
        add       r7, r7, 128
        blt       r7, K, .first
.m:     add       r11, r10, 1
%assign h 0
%rep 2
%assign o 1 - h
%assign w 10 + h
        add       r9, r0, 128
        mov       r7, 0
        mov       r1, 0
.n%+h:
%assign p 0
%rep 2
%assign l 2 * h + p
        mov       r2, 0
.k%+l:
%assign i 0
%rep DEPTH
        dma_copy  tb%+i, b[r2:+128, r1:+512], queue=q  $used%+i>=r3  $full%+i
        add       r2, r2, 128
%assign i i + 1
%endrep
        add       r3, r3, 1
        blt       r2, K, .k%+l
        blt       r9, M, .a%+l
        jmp       .s%+l
.a%+l:
%rep KT / NT
        dma_copy  ta%+o[:, r7:+128], a[r7:+128, r9:+128], queue=q  $adone%+o>=r%+w  $afull%+o
        add       r7, r7, 128
%endrep
.s%+l:  add       r1, r1, 512
%assign p p + 1
%endrep
        add       r4, r4, 1
%assign p 0
%rep 2
        dma_copy  c[r5:+128, r6:+512], tc%+p, queue=q  $copied%+p>=r4  $stored%+p
        add       r6, r6, 512
%assign p p + 1
%endrep
        blt       r1, N, .n%+h
        add       r0, r0, 128
        mov       r5, r0
        mov       r6, 0
%assign h h + 1
%endrep
        mov       r10, r11
        blt       r0, M, .m
        mul       r4, r4, 16
        nop       $stored1>=r4
        halt

section tensor                                 ; r1 full, r2 n, r3 copies, r4 m, r5 loads of a
        mov       r1, 0
        mov       r3, 0
        mov       r4, 0
        mov       r5, 0
.m:     add       r5, r5, KT*16
%assign h 0
%rep 2
        nop       $afull%+h>=r5
        mov       r2, 0
.n%+h:
%assign p 0
%rep 2
%assign k 0
%rep KT
%assign i k % DEPTH
%if i == 0
        add       r1, r1, 16
%endif
        ldweights ta%+h[:, k*128:k*128+128]
        nop       $full%+i>=r1
%if k == 0
        nop       $copied%+p>=r3
        matmul    sum%+p, tb%+i, acc=write  $used%+i++
%elif k == KT - 1
        matmul    sum%+p, tb%+i, acc=add    $summed%+p++
%else
        matmul    sum%+p, tb%+i, acc=add    $used%+i++
%endif
%assign k k + 1
%endrep
%assign p p + 1
%endrep
        add       r3, r3, 1
        add       r2, r2, 2
        blt       r2, NT, .n%+h
        add       r4, r4, 1
        nop       $adone%+h++
%assign h h + 1
%endrep
        blt       r4, M / 128, .m
        halt

%else
; r0 m, r1 n, r2 k; r3 uses of a load buffer; r4 uses of a sum. A sum is stored while the next is
; loaded.
section gpsimd
        mov       r0, 0
        mov       r3, 0
        mov       r4, 0
        mov       r5, 0                        ; m and n of the store
        mov       r6, 0
.m:     mov       r1, 0
.n:
%assign p 0
%rep 2
        mov       r2, 0
.k%+p:
%assign i 0
%rep DEPTH
        dma_copy  ta%+i, a[r2:+128, r0:+128], queue=q  $used%+i>=r3  $full%+i
        dma_copy  tb%+i, b[r2:+128, r1:+512], queue=q                $full%+i
        add       r2, r2, 128
%assign i i + 1
%endrep
        add       r3, r3, 1
        blt       r2, K, .k%+p
        add       r1, r1, 512
%assign p p + 1
%endrep
        add       r4, r4, 1
%assign p 0
%rep 2
        dma_copy  c[r5:+128, r6:+512], tc%+p, queue=q  $copied%+p>=r4  $stored%+p
        add       r6, r6, 512
%assign p p + 1
%endrep
        blt       r1, N, .n
        add       r0, r0, 128
        mov       r5, r0
        mov       r6, 0
        blt       r0, M, .m
        mul       r4, r4, 16
        nop       $stored1>=r4
        halt

section tensor
        mov       r1, 0                        ; loads of a buffer
        mov       r3, 0                        ; copies of a sum
.next:
%assign p 0
%rep 2
%assign k 0
%rep KT
%assign i k % DEPTH
%if i == 0
        add       r1, r1, 32
%endif
        ldweights ta%+i   $full%+i>=r1
%if k == 0
        nop       $copied%+p>=r3
        matmul    sum%+p, tb%+i, acc=write  $used%+i++
%elif k == KT - 1
        matmul    sum%+p, tb%+i, acc=add    $summed%+p++
%else
        matmul    sum%+p, tb%+i, acc=add    $used%+i++
%endif
%assign k k + 1
%endrep
%assign p p + 1
%endrep
        add       r3, r3, 1
        blt       r3, SUMS/2, .next
        halt

%endif
section vector
        mov       r1, 0
        mov       r2, 0
.next:
        add       r1, r1, 1
%assign p 0
%rep 2
%assign i (KT - 1) % DEPTH
        nop       $stored%+p>=r2
        event_semaphore     $summed%+p>=r1  $used%+i++
        tensor_copy tc%+p, sum%+p  $copied%+p++
%assign p p + 1
%endrep
        add       r2, r2, 16
        blt       r1, SUMS/2, .next
        halt
