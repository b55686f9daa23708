; c[M, N] = a[K, M]^T x b[K, N], bf16, in the order m, n, k of the tiled version of the tutorial,
; through static rings: every tile loaded for every product, or with HOIST those of a once per m,
; which BM then takes tiles of 128 rows of a at a time for each tile of b.
        target  trn1
%define M 4096
%define N 8192
%define K 8192
%define DEPTH 4
%ifndef BM
%define BM 1
%endif
%ifdef HOIST
%assign SETS 2                                 ; of tiles of a
%else
%assign SETS 1
%endif
%assign MT M / 128 / BM
%assign NT N / 512
%assign KT K / 128
a       tensor  bfloat16[K, M]
b       tensor  bfloat16[K, N]
c       tensor  bfloat16[M, N]
%ifdef HOIST
%assign i 0
%rep 2                                         ; tiles of a, KT * BM of them side by side
ta%+i   tile    sbuf bfloat16[128, KT*BM*128]
afull%+i  sem
adone%+i  sem
%assign i i + 1
%endrep
%else
%assign i 0
%rep DEPTH
ta%+i   tile    sbuf bfloat16[128, 128]
%assign i i + 1
%endrep
%endif
%assign i 0
%rep DEPTH
tb%+i   tile    sbuf bfloat16[128, 512]
full%+i   sem
used%+i   sem
%assign i i + 1
%endrep
%assign i 0
%rep 2 * BM
sum%+i  tile    psum float32[128, 512]
tc%+i   tile    sbuf bfloat16[128, 512]
summed%+i sem
copied%+i sem
stored%+i sem
%assign i i + 1
%endrep
qa      queue   rings=16, dge=none
qb      queue   rings=16, dge=none
qc      queue   rings=16, dge=none
%assign m 0
%rep MT
%assign n 0
%ifdef HOIST
%assign k 0
%assign i m % 2
%rep KT
%assign x k * BM
%assign y m * BM
%rep BM
        dma     qa, ta%+i[:, x*128:x*128+128], a[k*128:k*128+128, y*128:y*128+128]
%assign x x + 1
%assign y y + 1
%endrep
%assign k k + 1
%endrep
%endif
%rep NT
%ifndef HOIST
%assign k 0
%rep KT
%assign i k % DEPTH
        dma     qa, ta%+i, a[k*128:k*128+128, m*128:m*128+128]
%assign k k + 1
%endrep
%endif
%assign i n % 2 * BM
%assign y m * BM
%rep BM
        dma     qc, c[y*128:y*128+128, n*512:n*512+512], tc%+i
%assign i i + 1
%assign y y + 1
%endrep
%assign n n + 1
%endrep
%assign m m + 1
%endrep
%assign n 0
%rep NT                                        ; of each m the same
%assign k 0
%rep KT
%assign i k % DEPTH
        dma     qb, tb%+i, b[k*128:k*128+128, n*512:n*512+512]
%assign k k + 1
%endrep
%assign n n + 1
%endrep

section sync                                   ; r0 rounds of DEPTH products, r2 uses of a buffer
        mov       r0, 0
        mov       r2, 0
%ifdef HOIST
        mov       r5, 0
        mov       r6, 0
        dma_trigger qa, KT*BM  $afull0
.m:
%assign p 0
%rep 2
%assign o 1 - p
        event_semaphore     $adone%+o>=r6
        blt       r5, MT-1, .load%+p
        jmp       .go%+p
.load%+p:
        dma_trigger qa, KT*BM  $afull%+o
.go%+p:
        add       r5, r5, 1
%if p == 0
        add       r6, r6, 1
%endif
        mov       r0, 0
.round%+p:
%assign i 0
%rep DEPTH
        dma_trigger qb, 1  $used%+i>=r2  $full%+i
%assign i i + 1
%endrep
        add       r2, r2, 1
        add       r0, r0, 1
        blt       r0, NT*KT/DEPTH, .round%+p
%assign p p + 1
%endrep
        blt       r5, MT, .m
%else
.round:
%assign i 0
%rep DEPTH
        dma_trigger qa, 1  $used%+i>=r2  $full%+i
        dma_trigger qb, 1                $full%+i
%assign i i + 1
%endrep
        add       r2, r2, 1
        add       r0, r0, 1
        blt       r0, MT*NT*KT/DEPTH, .round
%endif
        halt

section tensor                                 ; r1 full, r2 n, r3 copies, r4 m, r5 loads of a
        mov       r1, 0
        mov       r3, 0
        mov       r4, 0
        mov       r5, 0
.m:
%assign h 0
%rep SETS
%ifdef HOIST
%if h == 0
        add       r5, r5, KT*BM*16
%endif
        nop       $afull%+h>=r5
%endif
        mov       r2, 0
.n%+h:
%assign p 0
%rep 2
%assign k 0
%rep KT
%assign i k % DEPTH
%if i == 0
%ifdef HOIST
        add       r1, r1, 16
%else
        add       r1, r1, 32
%endif
%endif
%assign b 0
%rep BM
%assign j p * BM + b
%ifdef HOIST
%assign x k * BM + b
        ldweights ta%+h[:, x*128:x*128+128]
        nop       $full%+i>=r1
%else
        ldweights ta%+i   $full%+i>=r1
%endif
%if k == 0
        nop       $copied%+j>=r3
%endif
%if k == KT - 1
        matmul    sum%+j, tb%+i, acc=add    $summed%+j++
%elif b < BM - 1 && k == 0
        matmul    sum%+j, tb%+i, acc=write
%elif b < BM - 1
        matmul    sum%+j, tb%+i, acc=add
%elif k == 0
        matmul    sum%+j, tb%+i, acc=write  $used%+i++
%else
        matmul    sum%+j, tb%+i, acc=add    $used%+i++
%endif
%assign b b + 1
%endrep
%assign k k + 1
%endrep
%assign p p + 1
%endrep
        add       r3, r3, 1
        add       r2, r2, 2
        blt       r2, NT, .n%+h
        add       r4, r4, 1
%ifdef HOIST
        nop       $adone%+h++
%endif
%assign h h + 1
%endrep
        blt       r4, MT, .m
        halt

section vector                                 ; PSUM to SBUF
        mov       r0, 0
        mov       r1, 0
        mov       r2, 0
.next:
        add       r1, r1, 1
%assign p 0
%rep 2 * BM
        nop       $stored%+p>=r2
%if p % BM == BM - 1
%assign i (KT - 1) % DEPTH
        event_semaphore     $summed%+p>=r1  $used%+i++
%else
        event_semaphore     $summed%+p>=r1
%endif
        tensor_copy tc%+p, sum%+p  $copied%+p++
%assign p p + 1
%endrep
        add       r2, r2, 16
        blt       r1, MT*NT/2, .next
        halt

section scalar                                 ; stores
        mov       r1, 0
.next:
        add       r1, r1, 1
%assign p 0
%rep 2 * BM
        dma_trigger qc, 1  $copied%+p>=r1  $stored%+p
%assign p p + 1
%endrep
        blt       r1, MT*NT/2, .next
%assign p 2 * BM - 1
        nop       $stored%+p>=r2
        halt
