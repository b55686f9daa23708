; y = x / sqrt(mean(x^2) + EPS) * g over rows of COLS; the squares are summed by the scalar engine's
; registers.
%define COLS 80
%define EPS 1.0e-6
in_x    tensor  bfloat16[128, COLS], input
in_g    tensor  float32[COLS], input
out_y   tensor  bfloat16[128, COLS], output
x       tile    sbuf bfloat16[128, COLS]
q       tile    sbuf float32[128, COLS]
g       tile    sbuf float32[128, COLS]
s       tile    sbuf float32[128, 1]
m       tile    sbuf float32[128, 1]
r       tile    sbuf float32[128, 1]
y       tile    sbuf bfloat16[128, COLS]
full    sem
params  sem
summed  sem
known   sem
root    sem
done    sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full
        dma_copy  g, in_g.ap([[0, 128], [1, COLS]]), queue=qin  $params
        dma_copy  out_y, y, queue=qout  $done>=1
        halt

section scalar
        activate  q, x, fn=square, reduce=reset_reduce  $full>=16
        act_read_acc s                  $summed++
        activate  r, m, fn=rsqrt        $known>=1 $root++
        halt

section vector
        tensor_scalar m, s, op0=mult, imm0=1.0 / COLS, op1=add, imm1=EPS  $summed>=1 $known++
        nop       $params>=16
        scalar_tensor_tensor y, x, g, op0=mult, imm0=r, op1=mult  $root>=1 $done++
        halt
