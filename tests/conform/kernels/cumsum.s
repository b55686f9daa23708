; Cumulative sums of 100 x 256: along rows by a scan in two halves, the second continuing where the
; first ends; along columns by a product with a triangle of ones.
in_x    tensor  float32[100, 256], input
out_r   tensor  float32[100, 256], output
out_c   tensor  float32[100, 256], output
x       tile    sbuf float32[100, 256]
one     tile    sbuf float32[100, 128]
t       tile    sbuf float32[100, 100]
r       tile    sbuf float32[100, 256]
p       tile    psum float32[100, 256]
c       tile    sbuf float32[100, 256]
full    sem
unit    sem
tri     sem
rows    sem
summed  sem
cols    sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full
        dma_copy  out_r, r, queue=qout  $rows>=1
        dma_copy  out_c, c, queue=qout  $cols>=1
        halt

section gpsimd                          ; t[k, m] = 1 where m - k >= 0
        memset    one, 1.0              $unit++
        affine_select t, one[:, 0:100], 0.0, pattern=[[1, 100]], multiplier=-1, cmp=is_ge  $tri++
        halt

section vector
        nop       $unit>=1
        tensor_tensor_scan r[:, 0:128], one, x[:, 0:128], 0.0, op0=mult, op1=add  $full>=16
        tensor_tensor_scan r[:, 128:256], one, x[:, 128:256], r[:, 127:128], op0=mult, \
                  op1=add         $rows++
        tensor_copy c, p                $summed>=1 $cols++
        halt

section tensor
        nop       $full>=16
        ldweights t                     $tri>=1
        matmul    p, x                  $summed++
        halt
