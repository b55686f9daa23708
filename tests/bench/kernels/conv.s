; y[m, i, j] = sum over c, u, v of w[c, u, v, m] x[c, i + u, j + v]: 3 x 3 over 128 channels, 128 filters,
; an image of H + 2 by 66. Each tap is a product of 8 rows, added up in PSUM.
;   -D H=n   a multiple of 8
        target  trn2
x       tensor  bfloat16[128, H + 2, 66], input
w       tensor  bfloat16[128, 9, 128], input
y       tensor  float32[128, H, 64], output
tx      tile    sbuf bfloat16[128, H + 2, 66]
tw      tile    sbuf bfloat16[128, 9, 128]
full    sem
%assign i 0
%rep 2
p%+i    tile    psum float32[128, 8, 64]
ty%+i   tile    sbuf float32[128, 8, 64]
%assign i i + 1
%endrep
summed  sem
done    sem
stored  sem
qin     queue   rings=16, dge=hwdge
qout    queue   rings=16, dge=swdge

section sync
        dma_copy  tx, x, queue=qin  $full
        dma_copy  tw, w, queue=qin  $full
        halt

section tensor
        nop       $full>=32
%assign n 0
%rep (H) / 8
%assign i n % 2
%assign t 0
%rep 9
        ldweights tw[:, t, :]
%if t == 0
        matmul    p%+i, tx[:, n*8+t/3:n*8+t/3+8, t % 3:t % 3+64], acc=write  $done>=(n>1)*(n-1) $summed++
%else
        matmul    p%+i, tx[:, n*8+t/3:n*8+t/3+8, t % 3:t % 3+64], acc=add    $summed++
%endif
%assign t t + 1
%endrep
%assign n n + 1
%endrep
        halt

section vector
%assign n 0
%rep (H) / 8
%assign i n % 2
        nop       $stored>=(n>1)*16*(n-1)
        tensor_copy ty%+i, p%+i  $summed>=9*(n+1) $done++
%assign n n + 1
%endrep
        halt

section gpsimd
%assign n 0
%rep (H) / 8
%assign i n % 2
        dma_copy  y[:, n*8:n*8+8, :], ty%+i, queue=qout  $done>=n+1 $stored
%assign n n + 1
%endrep
        halt
