        target  trn2
tp      group   [[0, 1]]
x       tensor  float32[4, 16], input
y       tensor  float32[4, 16], output
part    tensor  float32[4, 16]
there   tensor  float32[8], remote
u       tile    sbuf float32[4, 16]
done    sem
ready   sem
came    sem
moved   sem
qcc     queue   dge=none, owner=cc0, rings=4
qcd     queue   dge=none, owner=cc1
        dma     qcc, y[0].rank[tp.next], x[0]
        dma     qcc, y[1].rank[tp.xor 1], x[1]
section gpsimd
give:   collective_permute dsts=[y], srcs=[x], pairs=[[0, 1], [1, 0]]   $done++
sum:    all_reduce dsts=[part], srcs=[x], group=tp, op=add              $done++
        nop     $done>=2
        halt
section cc0
        wait_start  gpsimd.give
        nop                                 $ready.rank[tp.next]
        event_semaphore $ready>=1 $ready-=1
        dma_trigger qcc, 2, first=1         $came.rank[dst]
        event_semaphore $came>=8 $came-=8
        complete    gpsimd.give
        wait_start  gpsimd.sum
        mov         r1, 2
again:  dma_copy    part.rank[tp[1]], x, queue=qcc $came.rank[1]
        sub         r1, r1, 1
        bne         r1, 0, again
        complete    gpsimd.sum
section cc1
        wait_start  gpsimd.sum
        dma_copy    u.rank[tp.prev], u, queue=qcd $moved.rank[tp.prev]
        dma_compute part, srcs=[x, y], op=add, queue=qcd $moved
        event_semaphore $moved>=16 $moved-=16
        complete    gpsimd.sum
