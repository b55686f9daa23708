; Eight ranks on four devices of trn1: the page of a world.
        target  trn1
tp      group   [[0, 1, 2, 3, 4, 5, 6, 7]]
x       tensor  float32[64, 1024], input
y       tensor  float32[64, 1024], output
z       tensor  float32[512, 1024], output
done    sem
section gpsimd
        all_reduce dsts=[y], srcs=[x], group=tp, op=add   $done++
        nop     $done>=1
        all_gather dsts=[z], srcs=[y], group=tp   $done++
        nop     $done>=2
        halt
