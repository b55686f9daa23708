; c = a + b for 128 elements: one partition each, one tile, no loop.
        target  trn2

a       tensor  float32[128, 1], input
b       tensor  float32[128, 1], input
c       tensor  float32[128, 1], output

ta      tile    sbuf float32[128, 1]
tb      tile    sbuf float32[128, 1]
tc      tile    sbuf float32[128, 1]

loaded  sem
added   sem
stored  sem
q       queue   rings=16, dge=hwdge

section sync
        dma_copy  ta, a, queue=q                    $loaded
        dma_copy  tb, b, queue=q                    $loaded
        dma_copy  c, tc, queue=q        $added>=1   $stored
        halt

section vector
        tensor_tensor tc, ta, tb, op=add    $loaded>=32  $added++
        halt
