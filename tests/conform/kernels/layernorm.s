; y = (x - mean(x)) / sqrt(var(x) + EPS) * g + b over rows of COLS; 128 rows per block, two buffers.
;   vector  mean and variance by bn_stats and bn_aggr; the normalised rows
;   scalar  1 / sqrt
%define COLS 96
%define BLOCKS 2
%define EPS 1.0e-5
in_x    tensor  float32[128 * BLOCKS, COLS], input
in_g    tensor  float32[COLS], input
in_b    tensor  float32[COLS], input
out_y   tensor  float32[128 * BLOCKS, COLS], output
g       tile    sbuf float32[128, COLS]
b       tile    sbuf float32[128, COLS]
params  sem
%assign i 0
%rep BLOCKS
x%+i    tile    sbuf float32[128, COLS]
t%+i    tile    sbuf float32[128, 6]
m%+i    tile    sbuf float32[128, 2]    ; mean, variance
v%+i    tile    sbuf float32[128, 1]
s%+i    tile    sbuf float32[128, 1]    ; 1 / sqrt(variance + EPS)
full%+i   sem
known%+i  sem
root%+i   sem
done%+i   sem
%assign i i + 1
%endrep
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  g, in_g.ap([[0, 128], [1, COLS]]), queue=qin  $params
        dma_copy  b, in_b.ap([[0, 128], [1, COLS]]), queue=qin  $params
%assign i 0
%rep BLOCKS
        dma_copy  x%+i, in_x[128 * i:128 * i + 128, :], queue=qin  $full%+i
%assign i i + 1
%endrep
%assign i 0
%rep BLOCKS
        dma_copy  out_y[128 * i:128 * i + 128, :], x%+i, queue=qout  $done%+i>=1
%assign i i + 1
%endrep
        halt

section vector
%assign i 0
%rep BLOCKS
        bn_stats  t%+i, x%+i            $full%+i>=16
        bn_aggr   m%+i, t%+i
        tensor_scalar v%+i, m%+i[:, 1:2], op0=add, imm0=EPS  $known%+i++
%assign i i + 1
%endrep
        nop       $params>=32
%assign i 0
%rep BLOCKS
        tensor_scalar x%+i, x%+i, op0=subtract, imm0=m%+i[:, 0:1], op1=mult, imm1=s%+i  $root%+i>=1
        tensor_tensor x%+i, x%+i, g, op=mult
        tensor_tensor x%+i, x%+i, b, op=add  $done%+i++
%assign i i + 1
%endrep
        halt

section scalar
%assign i 0
%rep BLOCKS
        activate  s%+i, v%+i, fn=rsqrt  $known%+i>=1 $root%+i++
%assign i i + 1
%endrep
        halt
