; A full convolution: y[m, i + u, j + v] += sum over c of w[c, u, v, m] x[c, i, j]. Each tap is one
; product that is added to its own part of the output in PSUM; the parts overlap.
%define C 24
%define H 7
%define W 9
%define K 3
%define M 40
in_x    tensor  bfloat16[C, H, W], input
in_w    tensor  bfloat16[C, K, K, M], input
out_y   tensor  float32[M, H + K - 1, W + K - 1], output
x       tile    sbuf bfloat16[C, H, W]
w       tile    sbuf bfloat16[C, K, K, M]
p       tile    psum float32[M, H + K - 1, W + K - 1]
y       tile    sbuf float32[M, H + K - 1, W + K - 1]
full_x  sem
full_w  sem
summed  sem
done    sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full_x
        dma_copy  w, in_w, queue=qin    $full_w
        dma_copy  out_y, y, queue=qout  $done>=1
        halt

section tensor
        nop       $full_x>=16
        nop       $full_w>=16
%assign u 0
%rep K
%assign v 0
%rep K
        ldweights w[:, u, v, :]
        matmul    p[:, u:u + H, v:v + W], x, acc=auto  $summed++
%assign v v + 1
%endrep
%assign u u + 1
%endrep
        halt

section vector
        tensor_copy y, p                $summed>=K * K $done++
        halt
