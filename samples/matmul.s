; c[M, N] = a[K, M]^T x b[K, N]: bf16 in, fp32 sums in PSUM over K, fp32 out.
; Tiles of 128 x 128 (stationary) and 128 x 512 (moving), two buffers of each; a register loop
; over M, the loops over N and K unrolled by the preprocessor.
;   -D M=n -D N=n -D K=n   multiples of 128, 512 and 128
        target  trn2
%ifndef M
%define M 256
%endif
%ifndef N
%define N 1024
%endif
%ifndef K
%define K 512
%endif
%assign MT (M) / 128
%assign NT (N) / 512
%assign KT (K) / 128
%if MT * 128 != M || NT * 512 != N || KT * 128 != K
%error M, N and K must be multiples of 128, 512 and 128
%endif

a       tensor  bfloat16[K, M], input   ; transposed: the contraction is outermost
b       tensor  bfloat16[K, N], input
c       tensor  float32[M, N], output

%assign i 0
%rep 2
ta%+i   tile    sbuf bfloat16[128, 128]
tb%+i   tile    sbuf bfloat16[128, 512]
tc%+i   tile    sbuf float32[128, 512]
sum%+i  tile    psum float32[128, 512]
full%+i   sem                           ; + 32: ta and tb of a buffer are loaded
used%+i   sem                           ; + 1: they have been multiplied
copied%+i sem                           ; + 1: a sum has left PSUM
stored%+i sem                           ; + 16: it has left SBUF
%assign i i + 1
%endrep
qa      queue   rings=16, dge=hwdge
qc      queue   rings=16, dge=hwdge

; r0: row of this block. r2, r3: uses of each input buffer so far; r4, r5: of each output buffer.
section sync
        mov       r0, 0
        mov       r2, 0
        mov       r3, 0
.rows:
%assign n 0
%rep NT
%assign k 0
%rep KT
%assign i k % 2
%if i == 0
%define count r2
%else
%define count r3
%endif
        dma_copy  ta%+i, a[k*128:k*128+128, r0:+128], queue=qa  $used%+i>=count  $full%+i
        dma_copy  tb%+i, b[k*128:k*128+128, n*512:n*512+512], queue=qa           $full%+i
        add       count, count, 1
%assign k k + 1
%endrep
%assign n n + 1
%endrep
        add       r0, r0, 128
        blt       r0, M, .rows
        halt

; r2, r3: loads that must be there, by buffer; r4, r5: sums that must have left each bank.
section tensor
        mov       r0, 0
        mov       r2, 32
        mov       r3, 32
        mov       r4, 0
        mov       r5, 0
.rows:
%assign n 0
%rep NT
%assign j n % 2
%if j == 0
%define emptied r4
%else
%define emptied r5
%endif
        nop                             $copied%+j>=emptied
        add       emptied, emptied, 1
%assign k 0
%rep KT
%assign i k % 2
%if i == 0
%define count r2
%else
%define count r3
%endif
        ldweights ta%+i                 $full%+i>=count
%if k == 0
        matmul    sum%+j, tb%+i, acc=write  $used%+i++
%else
        matmul    sum%+j, tb%+i, acc=add    $used%+i++
%endif
        add       count, count, 32
%assign k k + 1
%endrep
%assign n n + 1
%endrep
        add       r0, r0, 128
        blt       r0, M, .rows
        halt

; The last matmul of a sum is the last use of buffer (KT - 1) % 2; matmuls finish in order.
%assign last (KT - 1) % 2
%assign uses (KT + 1 - last) / 2        ; of that buffer in one sum
section vector
        mov       r0, 0
        mov       r1, uses
        mov       r4, 0                 ; stores that must have left each tile
        mov       r5, 0
.rows:
%assign n 0
%rep NT
%assign j n % 2
%if j == 0
%define left r4
%else
%define left r5
%endif
        nop                             $stored%+j>=left
        tensor_copy tc%+j, sum%+j       $used%+last>=r1  $copied%+j++
        add       left, left, 16
        add       r1, r1, uses
%assign n n + 1
%endrep
        add       r0, r0, 128
        blt       r0, M, .rows
        halt

section scalar
        mov       r0, 0
        mov       r4, 1
        mov       r5, 1
.rows:
%assign n 0
%rep NT
%assign j n % 2
%if j == 0
%define count r4
%else
%define count r5
%endif
        dma_copy  c[r0:+128, n*512:n*512+512], tc%+j, queue=qc  $copied%+j>=count  $stored%+j
        add       count, count, 1
%assign n n + 1
%endrep
        add       r0, r0, 128
        blt       r0, M, .rows
        halt
