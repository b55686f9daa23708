        target  trn3
tp      group   [[0, 1, 2, 3], [4, 5, 6, 7]]
two     group   [[1, 0]]
one     group   [[0], [1]]
done    sem
x       tensor  bfloat16[4, 64], input
y       tensor  bfloat16[4, 64], output
z       tensor  bfloat16[16, 64]
w       tensor  bfloat16[8, 64]
m       tensor  uint32[3, 4]
m4      tensor  uint32[4, 2]
a       tile    sbuf bfloat16[4, 64]
b       tile    sbuf bfloat16[4, 64]
c       tile    sbuf bfloat16[4, 256]
n       tile    sbuf uint32[1, 12]
section gpsimd
        all_reduce dsts=[y], srcs=[x], group=two, op=add $done++
        all_reduce dsts=[b], srcs=[a], group=two, op=max, stream=1, prio=3 $done>=1 $done++
        all_reduce dsts=[y[0:2], y[2:4]], srcs=[x[2:4], x[0:2]], group=two, op=min
        all_gather dsts=[w], srcs=[x], group=two
        all_gather dsts=[c], srcs=[a], group=tp, dim=1
        all_gather_v dsts=[z], srcs=[x], group=tp, metadata=m, recv_counts_known=true
        reduce_scatter dsts=[x], srcs=[w], group=two, op=min
        all_to_all dsts=[y], srcs=[x], group=two
        all_to_all_v dsts=[y], srcs=[x], group=tp, metadata=n
        all_to_all_v dsts=[y], srcs=[x], group=two, metadata=m4, has_rdispls=true
        collective_permute dsts=[y], srcs=[x], pairs=[[0, 1], [1, 0]]
        collective_permute_implicit dsts=[y[0], y[1]], srcs=[x[0], x[1]], group=two, channels=[0, 1]
        collective_permute_implicit_reduce dsts=[y], srcs0=[x], srcs1=[x], group=two, op=add
        all_reduce dsts=[y], srcs=[x], group=one, op=add
        current_processing_rank_id r3, r1, group=two, channel=1
        halt
