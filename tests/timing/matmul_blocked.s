; c[M, N] = a[K, M]^T x b[K, N], bf16, all dimensions blocked as in the last version of the tutorial:
; for 1024 columns of c, blocks of 1024 of K, which vector adds up in SBUF, and of 2048 rows.
        target  trn1
%define M 4096
%define N 8192
%define K 8192
%define BM 16                                  ; tiles of a block
%define BN 2
%define BK 8
%define MB 2                                   ; blocks
%define NB 8
%define KB 8
a       tensor  bfloat16[K, M]
b       tensor  bfloat16[K, N]
c       tensor  bfloat16[M, N]
%assign i 0
%rep 2
ta%+i   tile    sbuf bfloat16[128, BK*BM*128]  ; block i of M
tb%+i   tile    sbuf bfloat16[128, BK*BN*512]  ; an even or odd block of K
afull%+i sem
afree%+i sem
bfull%+i sem
bfree%+i sem
%assign i i + 1
%endrep
%assign i 0
%rep 4
sum%+i  tile    psum float32[128, 512]
summed%+i sem
taken%+i sem
%assign i i + 1
%endrep
%assign i 0
%rep MB * BM
row%+i  tile    sbuf bfloat16[128, BN*512]
stored%+i sem
%assign i i + 1
%endrep
qa      queue   rings=16, dge=none             ; the same for each n
qb      queue   rings=16, dge=none
qc      queue   rings=16, dge=none
%assign k 0
%rep KB * BK
%assign x k % BK
        dma     qa, ta0[:, x*BM*128:(x+1)*BM*128], a[k*128:k*128+128, 0:BM*128]
%if x == BK - 1
%assign k k - BK + 1
%assign x 0
%rep BK
        dma     qa, ta1[:, x*BM*128:(x+1)*BM*128], a[k*128:k*128+128, BM*128:2*BM*128]
%assign k k + 1
%assign x x + 1
%endrep
%else
%assign k k + 1
%endif
%endrep
%assign n 0
%rep NB
%assign k 0
%rep KB * BK
%assign x k % BK
%assign i k / BK % 2
        dma     qb, tb%+i[:, x*BN*512:(x+1)*BN*512], b[k*128:k*128+128, n*BN*512:(n+1)*BN*512]
%assign k k + 1
%endrep
%assign i 0
%rep MB * BM
        dma     qc, c[i*128:i*128+128, n*BN*512:(n+1)*BN*512], row%+i
%assign i i + 1
%endrep
%assign n n + 1
%endrep

section sync                                   ; loads; r0 uses of a buffer of b, r1 of one of a
        mov       r0, 0
        mov       r1, 0
.next:
%assign i 0
%rep 2
        dma_trigger qb, BK  $bfree%+i>=r0  $bfull%+i
%assign m 0
%rep MB
        dma_trigger qa, BK  $afree%+m>=r1  $afull%+m
%assign m m + 1
%endrep
        add       r1, r1, 1
%assign i i + 1
%endrep
        add       r0, r0, 1
        blt       r0, NB*KB/2, .next
        halt

section tensor                                 ; r0, r1 loads of b and a, r2 uses of a sum
        mov       r0, 0
        mov       r1, 0
        mov       r2, 0
.next:  add       r0, r0, BK*16
%assign i 0
%rep 2
        nop       $bfull%+i>=r0
        add       r1, r1, BK*16
%assign m 0
%rep MB
        nop       $afull%+m>=r1
%assign t 0
%rep BN * BM
%assign s t % 4
%assign bm t % BM
%assign bn t / BM
        nop       $taken%+s>=r2
%assign k 0
%rep BK
%assign x k * BM + bm
%assign y k * BN + bn
        ldweights ta%+m[:, x*128:x*128+128]
%if k == 0
        matmul    sum%+s, tb%+i[:, y*512:y*512+512], acc=write
%elif k == BK - 1
        matmul    sum%+s, tb%+i[:, y*512:y*512+512], acc=add  $summed%+s++
%else
        matmul    sum%+s, tb%+i[:, y*512:y*512+512], acc=add
%endif
%assign k k + 1
%endrep
%if s == 3
        add       r2, r2, 1
%endif
%assign t t + 1
%endrep
%assign m m + 1
%endrep
%assign i i + 1
%endrep
        blt       r0, NB*KB/2*BK*16, .next
        halt

section vector                                 ; r0 n, r1 k, r2 uses of a sum, r3 stores
        mov       r0, 0
        mov       r2, 1
        mov       r3, 0
.n:     mov       r1, 0
.k:
%assign i 0
%rep 2
%assign m 0
%rep MB
%assign t 0
%rep BN * BM
%assign s t % 4
%assign bn t / BM
%assign r m * BM + t % BM
        nop       $summed%+s>=r2
%if i == 0
        blt       r1, 1, .copy%+m%+_%+t
%endif
        tensor_tensor row%+r[:, bn*512:bn*512+512], row%+r[:, bn*512:bn*512+512], sum%+s, op=add  $taken%+s++
%if i == 0
        jmp       .next%+m%+_%+t
.copy%+m%+_%+t:
        nop       $stored%+r>=r3
        tensor_copy row%+r[:, bn*512:bn*512+512], sum%+s  $taken%+s++
.next%+m%+_%+t:
%endif
%if s == 3
        add       r2, r2, 1
%endif
%assign t t + 1
%endrep
        event_semaphore  $afree%+m++
%assign m m + 1
%endrep
        event_semaphore  $bfree%+i++
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r1, KB/2, .k
        add       r3, r3, 16
        add       r0, r0, 1
        blt       r0, NB, .n
        halt

section scalar                                 ; stores, after the last block of K
        mov       r0, (KB-1)*MB*BM*BN/4
        mov       r1, 0
.next:
%assign r 0
%rep MB * BM
%assign s r % 4
        add       r2, r0, r / BM * BM*BN/4 + (r % BM + BM) / 4 + 1
        dma_trigger qc, 1  $taken%+s>=r2  $stored%+r
%assign r r + 1
%endrep
        add       r0, r0, KB*MB*BM*BN/4
        add       r1, r1, 16
        blt       r1, NB*16, .next
%assign r 0
%rep MB * BM
        nop       $stored%+r>=r1
%assign r r + 1
%endrep
        halt
