; Averages of 2 x 3 windows of an image of 64 channels, 12 x 15: one reduction over a view of five
; dimensions.
in_x    tensor  float32[64, 12, 15], input
out_y   tensor  float32[64, 6, 5], output
x       tile    sbuf float32[64, 12, 15]
s       tile    sbuf float32[64, 6, 5]
y       tile    sbuf float32[64, 6, 5]
full    sem
summed  sem
done    sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full
        dma_copy  out_y, y, queue=qout  $done>=1
        halt

section vector
        nop       $full>=16
        tensor_reduce s, x.ap([[30, 6], [3, 5], [15, 2], [1, 3]]), op=add, axes=2  $summed++
        halt

section scalar
        activate  y, s, fn=copy, scale=1.0 / 6  $summed>=1 $done++
        halt
