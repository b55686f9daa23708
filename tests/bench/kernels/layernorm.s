; y = (x - mean) / sqrt(variance + 1e-5) * g + b, 128 rows of 512 at a time.
;   -D ROWS=n
        target  trn2
x       tensor  float32[ROWS, 512], input
g       tensor  float32[512], input
b       tensor  float32[512], input
y       tensor  float32[ROWS, 512], output
tg      tile    sbuf float32[128, 512]
tb      tile    sbuf float32[128, 512]
tx      tile    sbuf float32[128, 512]
stats   tile    sbuf float32[128, 6]
both    tile    sbuf float32[128, 2]
v       tile    sbuf float32[128, 1]
s       tile    sbuf float32[128, 1]
params  sem
full    sem
known   sem
root    sem
done    sem
stored  sem
qin     queue   rings=16, dge=hwdge
qout    queue   rings=16, dge=swdge

section sync
        dma_copy  tg, g.ap([[0, 128], [1, 512]]), queue=qin  $params
        dma_copy  tb, b.ap([[0, 128], [1, 512]]), queue=qin  $params
        mov       r0, 0
        mov       r1, 0
.next:  dma_copy  tx, x[r0:+128, :], queue=qin  $stored>=r1 $full
        add       r0, r0, 128
        add       r1, r1, 16
        blt       r0, ROWS, .next
        halt

section vector
        nop       $params>=32
        mov       r0, 0
        mov       r1, 1
        mov       r2, 16
.next:  bn_stats  stats, tx     $full>=r2
        bn_aggr   both, stats
        tensor_scalar v, both[:, 1:2], op0=add, imm0=1.0e-5  $known++
        tensor_scalar tx, tx, op0=subtract, imm0=both[:, 0:1], op1=mult, imm1=s  $root>=r1
        tensor_tensor tx, tx, tg, op=mult
        tensor_tensor tx, tx, tb, op=add  $done++
        add       r0, r0, 128
        add       r1, r1, 1
        add       r2, r2, 16
        blt       r0, ROWS, .next
        halt

section scalar
        mov       r0, 0
        mov       r1, 1
.next:  activate  s, v, fn=rsqrt  $known>=r1 $root++
        add       r0, r0, 128
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt

section gpsimd
        mov       r0, 0
        mov       r1, 1
.next:  dma_copy  y[r0:+128, :], tx, queue=qout  $done>=r1 $stored
        add       r0, r0, 128
        add       r1, r1, 1
        blt       r0, ROWS, .next
        halt
