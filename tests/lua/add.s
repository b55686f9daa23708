; c = a + b, 4 partitions: what test_core.lua and test_command.lua run
        target  trn2
%ifndef N
%define N 8
%endif
a       tensor  float32[4, N], input
b       tensor  float32[4, N], input
c       tensor  float32[4, N], output

ta      tile    sbuf float32[4, N]
tb      tile    sbuf float32[4, N]
tc      tile    sbuf float32[4, N]

loaded  sem
added   sem
stored  sem
q       queue   rings=16, dge=hwdge

section sync
        dma_copy  ta, a, queue=q                    $loaded
        dma_copy  tb, b, queue=q                    $loaded
        dma_copy  c, tc, queue=q        $added>=1   $stored
        event_semaphore                 $stored>=16
        mov       r5, -7
        halt

section vector
        tensor_tensor tc, ta, tb, op=add    $loaded>=32  $added++
        halt
