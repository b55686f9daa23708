target trn2
x tensor float32[40], input
y tensor float32[40], output
cc0_land0 tensor uint8[128], temp
tp group [[0,1]]
done sem 0
cc_ready1 sem 218
cc_ready0 sem 219
cc1_both sem 220
cc1_done sem 221
cc1_from15 sem 222
cc1_from14 sem 223
cc1_from13 sem 224
cc1_from12 sem 225
cc1_from11 sem 226
cc1_from10 sem 227
cc1_from9 sem 228
cc1_from8 sem 229
cc1_from7 sem 230
cc1_from6 sem 231
cc1_from5 sem 232
cc1_from4 sem 233
cc1_from3 sem 234
cc1_from2 sem 235
cc1_from1 sem 236
cc1_from0 sem 237
cc0_both sem 238
cc0_done sem 239
cc0_from15 sem 240
cc0_from14 sem 241
cc0_from13 sem 242
cc0_from12 sem 243
cc0_from11 sem 244
cc0_from10 sem 245
cc0_from9 sem 246
cc0_from8 sem 247
cc0_from7 sem 248
cc0_from6 sem 249
cc0_from5 sem 250
cc0_from4 sem 251
cc0_from3 sem 252
cc0_from2 sem 253
cc0_from1 sem 254
cc0_from0 sem 255
qcc0 queue rings=5, dge=none, owner=cc0
qcc0_local queue rings=5, dge=none, owner=cc0
dma qcc0, float32@hbm[cc0_land0,0][1][20].rank[1], float32@hbm[x,80][1][20]
dma qcc0, float32@hbm[y,0][1][20].rank[1], float32@hbm[y,0][1][20]
dma qcc0_local, float32@hbm[y,0][1][20], srcs=[float32@hbm[cc0_land0,0][1][20],float32@hbm[x,0][1][20]], op=add

section gpsimd
        all_reduce dsts=[float32@hbm[y,0][1][40]], srcs=[float32@hbm[x,0][1][40]], group=tp, op=add $done++
        nop $done>=1
        halt

section cc0
        wait_start gpsimd.L0
        nop $cc_ready0.rank[1]
        event_semaphore $cc_ready0>=1 $cc_ready0-=1
        dma_trigger qcc0, 1, first=1 $cc0_from0.rank[1]
        event_semaphore $cc0_from0>=5 $cc0_from0-=5
        dma_trigger qcc0_local, 1, first=1 $cc0_done
        event_semaphore $cc0_done>=5 $cc0_done-=5
        dma_trigger qcc0, 1, first=2 $cc0_from1.rank[1]
        event_semaphore $cc0_from1>=5 $cc0_from1-=5
        complete gpsimd.L0
