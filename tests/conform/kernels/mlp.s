; y^T = w2^T gelu(w1^T x^T + b1) + b2, features on partitions: 96 -> 256 -> 48 for 64 tokens. The
; hidden layer is two tiles of 128; the second product adds them up in PSUM.
in_x    tensor  float32[96, 64], input
in_w1   tensor  float32[96, 256], input
in_b1   tensor  float32[256, 1], input
in_w2   tensor  float32[256, 48], input
in_b2   tensor  float32[48, 1], input
out_y   tensor  float32[48, 64], output
x       tile    sbuf float32[96, 64]
w1      tile    sbuf float32[96, 256]
b2      tile    sbuf float32[48, 1]
q       tile    psum float32[48, 64]
y       tile    sbuf float32[48, 64]
full    sem
summed  sem
done    sem
%assign i 0
%rep 2
w2_%+i  tile    sbuf float32[128, 48]
b1_%+i  tile    sbuf float32[128, 1]
p%+i    tile    psum float32[128, 64]
h%+i    tile    sbuf float32[128, 64]
second%+i sem
raw%+i  sem
hidden%+i sem
%assign i i + 1
%endrep
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full
        dma_copy  w1, in_w1, queue=qin  $full
        dma_copy  b2, in_b2, queue=qin  $full
%assign i 0
%rep 2
        dma_copy  w2_%+i, in_w2[128 * i:128 * i + 128, :], queue=qin  $second%+i
        dma_copy  b1_%+i, in_b1[128 * i:128 * i + 128, :], queue=qin  $second%+i
%assign i i + 1
%endrep
        dma_copy  out_y, y, queue=qout  $done>=1
        halt

section tensor
        nop       $full>=48
%assign i 0
%rep 2
        ldweights w1[:, 128 * i:128 * i + 128]
        matmul    p%+i, x, acc=write    $raw%+i++
%assign i i + 1
%endrep
        nop       $second0>=32
        nop       $second1>=32
%assign i 0
%rep 2
        ldweights w2_%+i
        matmul    q, h%+i               $hidden%+i>=1 $summed++
%assign i i + 1
%endrep
        halt

section scalar
%assign i 0
%rep 2
        nop       $second%+i>=32
        activate  h%+i, p%+i, fn=gelu, bias=b1_%+i  $raw%+i>=1 $hidden%+i++
%assign i i + 1
%endrep
        halt

section vector
        nop       $full>=48
        tensor_scalar y, q, op0=add, imm0=b2  $summed>=2 $done++
        halt
