-- Faulty programs as kernel engineers write them: a finding names each, under every timing.
local bed = require "check_bed"
local bad = bed.bad

bad("no wait on a load", "race: a transfer of queue q writes what vector reads", [=[
sync: dma_copy ta, a, queue=q $loaded
vector: tensor_copy tb, ta
]=])
bad("no wait on a load trn1", "race: a transfer of queue q writes what vector reads", [=[
gpsimd: dma_copy ta, a, queue=q $loaded
vector: tensor_copy tb, ta
]=], "trn1")
bad("no wait on a load trn3", "race: a transfer of queue q writes what vector reads", [=[
sync: dma_copy ta, a, queue=q $loaded
vector: tensor_copy tb, ta
]=], "trn3")
bad("two loads, waits for the first by count", "race: vector reads what a transfer of queue q writes", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy tb, b, queue=q2 $loaded
vector: tensor_tensor tc, ta, tb, op=add $loaded>=16
]=])
bad("buffer overwritten by the next load before its reader", "race: vector reads what a transfer of queue q writes", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy ta, b, queue=q $loaded
vector: tensor_copy tb, ta $loaded>=16 $done++; tensor_copy tc, ta $loaded>=32 $done++
]=])
bad("store source reused before the store is done", "race: a transfer of queue q reads what vector writes", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy c, tb, queue=q $done>=1 $free
vector: tensor_copy tb, ta $loaded>=16 $done++; memset tb, 0.0
]=])
bad("queue order assumed across queues HBM", "race: a transfer of queue q2 reads what a transfer of queue q writes", [=[
sync: dma_copy h, a, queue=q $loaded; dma_copy c, h, queue=q2 $done
]=])
bad("order assumed across rings of one queue", "race: a transfer of queue q reads what a transfer of queue q writes", [=[
sync: dma_copy h, a, queue=q $loaded; dma_copy c[0:64, :], h[64:128, :], queue=q $done
]=])
bad("SBUF load then HBM store other split", "race: a transfer of queue q reads what a transfer of queue q writes", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy tb[0:64, :], ta[64:128, :], queue=q $done
]=])
bad("semaphore reset too early", "race: vector waits for $loaded >= 16, which only the timing satisfied", [=[
sync: dma_copy ta, a, queue=q $loaded; nop $loaded>=16; event_semaphore $loaded=0
vector: tensor_copy tb, ta $loaded>=16
]=])
bad("sem_range_clear while waiters", "race: scalar waits for $done >= 1, which only the timing satisfied", [=[
vector: memset ta, 1.0 $done++
sync: nop $done>=1; sem_range_clear 0, 8
scalar: tensor_copy tb, ta $done>=1
]=])
bad("PSUM group read half way, ordered", "psum: a matmul adds to a group that has been read already", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1 $loaded++
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++; matmul pa, x, acc=add $loaded>=1
]=])
bad("PSUM group read half way by count", "race: vector reads what tensor writes", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++; matmul pa, x, acc=add $done++
]=])
bad("DMA and PE race on weights", "race: vector writes what tensor reads", [=[
sync: dma_copy ta, a, queue=q $loaded
vector: memset x, 1.0 $ack++; tensor_copy w, ta[:, 0:128] $loaded>=16 $ack++
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $ack>=2
]=])
bad("moving operand reloaded while PE reads it", "race: tensor reads what a transfer of queue q writes", [=[
z tensor bfloat16[128, 512], const = {times 65536 1}
sync: dma_copy x, z, queue=q $loaded; dma_copy x, z, queue=q $ack>=1 $loaded
vector: memset w, 1.0 $done++
tensor: ldweights w $done>=1 $ack++; matmul pa, x, acc=write $loaded>=16
]=])
bad("partial tile", "the first that was not written is in partition 127, byte 0", [=[
sync: dma_copy ta[0:127, :], a[0:127, :], queue=q $loaded
vector: tensor_copy tb, ta $loaded>=16
]=])
bad("strided write, dense read", "the first that was not written is in partition 0, byte 4", [=[
vector: memset ta[:, 0:512:2], 1.0; tensor_copy tb, ta
]=])
bad("last column missed", "the first that was not written is in partition 0, byte 2044", [=[
vector: memset ta[:, 0:511], 1.0; tensor_reduce tb[:, 0:1], ta, op=add, axes=1
]=])
bad("DMA gather index vector uninit", "the first that was not written is in partition 64, byte 7424", [=[
ti tile sbuf int32[128, 1]
gpsimd: memset ti[0:64, :], 0; dma_copy ta, a.gather(ti, 0), queue=qs $loaded
]=])
bad("DMA gather of rows of a temp nobody wrote", "the first that was not written is byte 143360", [=[
index   tensor int32[128, 1], const = {times 64 0, times 64 70}
ti tile sbuf int32[128, 1]
gpsimd: dma_copy h[0:64, :], a[0:64, :], queue=qs $loaded; dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, h.gather(ti, 0), queue=qs $loaded>=32 $done
]=])
bad("local_gather of elements nobody wrote", "what it chooses for row 0 of its destination was not written", [=[
ti tile sbuf uint16[128, 2]
gpsimd: memset ta[:, 0:8], 1.0; memset ti, 9; local_gather tb[:, 0:32], ta, ti
]=])
bad("n_gather of elements nobody wrote", "what it chooses for row 0 of its destination was not written", [=[
ti tile sbuf uint32[128, 16]
gpsimd: memset ta[:, 0:8], 1.0; memset ti, 9; n_gather tb[:, 0:16], ta, ti
]=])
bad("n_gather index not written", "the first that was not written is in partition 0, byte 7456", [=[
ti tile sbuf uint32[128, 16]
gpsimd: memset ta, 1.0; memset ti[:, 0:8], 7; n_gather tb[:, 0:16], ta, ti
]=])
bad("scatter leaves rows, whole read", "the first that was not written is byte 131072", [=[
index   tensor int32[64, 1], const = {times 64 0}
ti tile sbuf int32[64, 1]
gpsimd: iota ti, pattern=[[0, 1]], multiplier=1; dma_copy ta, a, queue=qs $loaded;
    nop $loaded>=16; dma_copy h[0:64, :].gather(ti, 0), ta[0:64, :], queue=qs $loaded>=16 $done;
    dma_copy tb, h, queue=qs $done>=16 $go
]=])
bad("copy_predicated on a fresh tile", "the first that was not written is in partition 0, byte 3072", [=[
p tile sbuf uint8[128, 512]
vector: memset p[:, 0:256], 1; memset p[:, 256:512], 0; memset ta, 1.0;
    copy_predicated tb, src=ta, pred=p; tensor_copy tc, tb
]=])
bad("copy_predicated selects what nobody wrote", "what it chooses for row 0 of its destination was not written", [=[
p tile sbuf uint8[128, 512]
vector: memset p, 1; memset ta[:, 0:256], 1.0; copy_predicated tb, src=ta, pred=p
]=])
bad("affine_select off by one", "what it chooses for row 0 of its destination was not written", [=[
gpsimd: memset ta[:, 0:256], 1.0;
    affine_select tb, ta, 0.0, pattern=[[-1, 512]], offset=256, cmp=is_ge
]=])
bad("select_reduce selects unwritten", "what it chooses for row 0 of its destination was not written", [=[
p tile sbuf uint8[128, 512]
vector: memset p[:, 0:257], 1; memset p[:, 257:512], 0; memset ta[:, 0:256], 1.0;
    select_reduce tb, ta, -1.0, pred=p
]=])
bad("dma accumulate onto a fresh output", "the first that was not written is byte 0", [=[
gpsimd: dma_copy ta, a, queue=qs $loaded; dma_copy c, ta, queue=qs, op=add $loaded>=16 $done
]=])
bad("two accumulations on two queues", "race: a transfer of queue qs2 writes what a transfer of queue qs writes", [=[
qs2 queue rings=16, dge=swdge
vector: memset ta, 1.0; memset tb, 2.0; drain; nop $go++
gpsimd: nop $go>=1; dma_copy h, a, queue=qs $loaded; nop $loaded>=16;
    dma_copy h, ta, queue=qs, op=add $done; dma_copy h, tb, queue=qs2, op=add $done
]=])
bad("in-place while DMA stores it", "race: a transfer of queue q reads what vector writes", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy c, ta, queue=q $done>=1 $free
vector: tensor_scalar ta, ta, op0=mult, imm0=2.0 $loaded>=16 $done++;
    tensor_scalar ta, ta, op0=mult, imm0=2.0 $done++
]=])
bad("in-place by @read", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0; tensor_scalar ta, ta, op0=mult, imm0=2.0 $done++@read
scalar: tensor_copy tb, ta $done>=1
]=])
bad("HBM race between two queues on rows", "race: a transfer of queue q2 writes what a transfer of queue q writes", [=[
sync: dma_copy c[0:65, :], a[0:65, :], queue=q $loaded;
    dma_copy c[64:128, :], b[64:128, :], queue=q2 $loaded
]=])
bad("double buffering off by one", "race: vector reads what a transfer of queue q writes", [=[
sync: mov r0, 0; mov r1, 0; .l: dma_copy ta, a, queue=q $free>=r1 $loaded; add r0, r0, 1;
    and r2, r0, 1; mov r1, r0; sub r1, r1, 1; blt r0, 6, .l
vector: mov r0, 0; mov r1, 16; .l: tensor_copy tb, ta $loaded>=r1 $free++; add r1, r1, 16;
    add r0, r0, 1; blt r0, 6, .l
]=])
bad("one semaphore of a ping pong", "race: vector reads what a transfer of queue q writes", [=[
sync: mov r0, 0; mov r1, 0; mov r2, 0;
    .l: dma_copy ta[:, r2:+64], a[:, r2:+64], queue=q $free>=r1 $loaded; add r0, r0, 1;
    and r2, r0, 1; shl r2, r2, 6; max r1, r0, 1; sub r1, r1, 1; blt r0, 8, .l
vector: mov r0, 0; mov r1, 16; mov r2, 0;
    .l: tensor_copy tb[:, r2:+64], ta[:, r2:+64] $loaded>=r1 $free++; add r1, r1, 16;
    add r0, r0, 1; and r2, r0, 1; shl r2, r2, 6; blt r0, 8, .l
]=])
bad("register address collides", "race: gpsimd writes what vector writes", [=[
vector: mov r0, 64; memset ta[:, r0:+64], 1.0
gpsimd: mov r0, 32; memset ta[:, r0:+64], 2.0
]=])
bad("transposed DMA of what is being loaded", "race: a transfer of queue q2 reads what a transfer of queue q writes", [=[
tt tile sbuf bfloat16[128, 16]
z tensor bfloat16[16, 128], const = {times 2048 1}
sync: dma_copy w[0:16, :], z, queue=q $loaded;
    dma_transpose tt, w[0:16, :], queue=q2 $loaded>=1 $done
]=])
bad("transposed DMA with a write of its columns (hbm)",
  "race: a transfer of queue q writes what a transfer of queue q2 reads", [=[
tt tile sbuf bfloat16[64, 16]
z tensor bfloat16[128, 128]
vector: memset w, 1.0 $ack++
sync: dma_copy z, w, queue=q $ack>=1 $loaded;
    dma_transpose tt, z[0:16, 0:64], queue=q2 $loaded>=16 $done;
    dma_copy z[:, 63:128], w[:, 63:128], queue=q $free
]=])
bad("transposed DMA with a write of its columns (sbuf)", "race: a transfer of queue q2 reads what gpsimd writes", [=[
tt tile sbuf bfloat16[64, 16]
vector: memset w, 1.0 $ack++
gpsimd: memset w[:, 63:128], 2.0 $ack>=1
sync: dma_transpose tt, w[0:16, 0:64], queue=q2 $ack>=1 $done
]=])
bad("transposed DMA with a write of its last row (sbuf)", "race: a transfer of queue q2 reads what gpsimd writes", [=[
tt tile sbuf bfloat16[64, 16]
vector: memset w, 1.0 $ack++
gpsimd: memset w[0:32, 63:64], 2.0 $ack>=1
sync: dma_transpose tt, w[0:16, 0:64], queue=q2 $ack>=1 $done
]=])
bad("transposed DMA of unwritten columns", "the first that was not written is in partition 0, byte 6144", [=[
tt tile sbuf bfloat16[64, 16]
vector: memset w[:, 1:128], 1.0 $ack++
sync: dma_transpose tt, w[0:16, 0:64], queue=q2 $ack>=1 $done
]=])
bad("indirect reads while being written", "race: vector reads what gpsimd writes", [=[
ti tile sbuf uint16[16, 4]
gpsimd: memset ta[:, 0:8], 1.0; memset ta[:, 8:16], 1.0 $done++
vector: memset ti, 9; tensor_copy tb[:, 0:64], ta.indirect(ti, 64)
]=], "trn3")
bad("indirect reads what nobody wrote", "the first that was not written is in partition 0, byte 36", [=[
ti tile sbuf uint16[16, 4]
vector: memset ta[:, 0:8], 1.0; memset ti, 9; tensor_copy tb[:, 0:64], ta.indirect(ti, 64)
]=], "trn3")
bad("loop-carried: reader one behind", "race: scalar reads what vector writes", [=[
vector: mov r0, 0; .l: memset ta, 1.0 $done++; add r0, r0, 1; blt r0, 4, .l
scalar: mov r0, 1; .l: tensor_copy tb, ta $done>=r0; add r0, r0, 1; ble r0, 4, .l
]=])
bad("wait on the wrong semaphore", "race: vector reads what a transfer of queue q2 writes", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy tb, b, queue=q2 $done
vector: tensor_copy tc, tb $loaded>=16
]=])
bad("update before the last writer", "race: scalar reads what vector writes", [=[
vector: memset ta[0:64, :], 1.0 $done++; memset ta[64:128, :], 1.0
scalar: tensor_copy tb, ta $done>=1
]=])
bad("nop signals for a DMA", "race: vector reads what a transfer of queue q writes", [=[
sync: dma_copy ta, a, queue=q $loaded; nop $done++
vector: tensor_copy tb, ta $done>=1
]=])
bad("drain does not wait for the transfers", "race: vector reads what a transfer of queue q writes", [=[
sync: dma_copy ta, a, queue=q $loaded; drain; nop $done++
vector: tensor_copy tb, ta $done>=1
]=])
bad("psum_zero'd and never multiplied", "the first that was not written is in partition 0, byte 1024", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1
tensor: ldweights w $ack>=1; matmul pa[:, 0:256], x[:, 0:256], acc=auto, psum_zero=pa $done++
]=])
bad("output tensor read back before its store", "the first that was not written is byte 0", [=[
sync: dma_copy ta, c, queue=q $loaded; nop $loaded>=16; dma_copy c, ta, queue=q $done
]=])
bad("nonzero leaves the others", "the first that was not written is in partition 1, byte 7552", [=[
n1 tile sbuf float32[128, 32]
n2 tile sbuf int32[128, 33]
ii tile sbuf int32[16, 33]
gpsimd: memset n1, 1.0; nonzero_with_count n2[0:16, :], n1[0:16, :], padding=-1;
    tensor_copy ii[0:16, :], n2[0:16, :]
]=])
bad("shuffle keeps what nobody wrote", "the first that was not written is in partition 31, byte 2048", [=[
vector: memset ta, 1.0;
    load_mask_register [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,255];
    shuffle tb, ta; tensor_copy tc, tb
]=])
bad("static queue, one short", "race: vector reads what a transfer of queue qq writes", [=[
qq queue rings=16, dge=none
dma qq, ta, a
dma qq, tb, b
sync: dma_trigger qq, 2 $loaded
vector: tensor_tensor tc, ta, tb, op=add $loaded>=16 $done++
]=])
bad("tensor_load of what another writes", "race: gpsimd writes what vector reads", [=[
ti tile sbuf int32[1, 4]
gpsimd: memset ti, 3
vector: tensor_load r1, ti[0, 1]
]=])
bad("elem offset from what a DMA loads", "race: a transfer of queue q writes what vector reads", [=[
k tensor int32[1, 1], const = [3]
ti tile sbuf int32[1, 1]
sync: dma_copy ti, k, queue=q $loaded
vector: tensor_load r1, ti[0, 0] $loaded>=0
]=])
bad("credits in the wrong order", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++
scalar: event_semaphore $done>=1 $done--; tensor_copy tc, tb
]=])
bad("PSUM bank reused by the next group too early", "race: vector reads what tensor writes", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++; matmul pa, x, acc=write
]=])
bad("two writers of one tile, reader waits both", "race: gpsimd writes what vector writes", [=[
vector: memset ta, 1.0 $done++
gpsimd: memset ta[:, 0:1], 2.0 $done++
scalar: tensor_copy tb, ta $done>=2
]=])
bad("broadcast read of a column being written", "race: scalar reads what vector writes", [=[
vector: memset ta[:, 0:1], 1.0
scalar: tensor_copy tb, ta[:, 0:1].broadcast(1, 512)
]=])
bad("stale value in phase two", "race: vector writes what scalar reads", [=[
vector: memset ta, 1.0 $done++; memset ta, 2.0 $ack>=1 $done++
scalar: tensor_copy tb, ta $done>=1 $ack++; tensor_copy tc, ta $done>=1
]=])
bad("lost update: reset races with the next increment",
  "race: scalar sets $done and vector updates it, and nothing orders the two", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++
scalar: event_semaphore $done>=1 $done=0; tensor_copy tc, ta; tensor_copy tc, tb $done>=1
]=])
bad("clear at the start races with updates", "race: sync sets $done and vector updates it, and nothing orders the two", [=[
sync: sem_range_clear 0, 5
vector: memset ta, 1.0 $done++
scalar: tensor_copy tc, ta $done>=1
]=])
bad("a reset that is still under way when the next round waits",
  "race: scalar waits for $done >= 1, which only the timing satisfied", [=[
vector: mov r0, 1; .l: memset ta, 1.0 $done++; event_semaphore $ack>=1 $ack--; add r0, r0, 1;
    ble r0, 3, .l
scalar: mov r0, 1; .l: tensor_copy tc, ta $done>=1 $go++; event_semaphore $go>=1 $go=0;
    event_semaphore $done=0; nop $ack++; add r0, r0, 1; ble r0, 3, .l
]=])
bad("DMA completions reset too early", "race: vector sets $loaded and sync updates it, and nothing orders the two", [=[
sync: mov r0, 0; .l: dma_copy ta, a, queue=q $loaded; event_semaphore $ack>=1 $ack=0;
    add r0, r0, 1; blt r0, 3, .l
vector: mov r0, 0; .l: nop $loaded>=15; event_semaphore $loaded=0; nop $ack++; add r0, r0, 1;
    blt r0, 3, .l
]=])
bad("index overwritten after the trigger by another", "race: gpsimd reads what vector writes", [=[
index   tensor int32[128, 1], const = {times 128 0}
ti tile sbuf int32[128, 1]
gpsimd: dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, a.gather(ti, 0), queue=qs $loaded>=16 $done
vector: memset ti, 3 $loaded>=16
]=])
bad("tensor_store read by another without order", "race: sync writes what vector reads", [=[
ti tile sbuf int32[1, 1]
tj tile sbuf int32[1, 1]
sync: mov r1, 5; tensor_store ti[0, 0], r1
vector: nop $done>=0; tensor_copy tj, ti
]=])
bad("x rewritten when only the weights are signalled", "race: vector writes what tensor reads", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; memset x, 2.0 $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=write; ldweights w $done++
]=])
bad("w rewritten when the matmul before it is signalled", "race: vector writes what tensor reads", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; memset w, 2.0 $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++; ldweights w;
    matmul pa, x, acc=write
]=])
bad("matmul @read says nothing of psum", "race: vector reads what tensor writes", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++@read
]=])
bad("HBM strided against a block", "race: a transfer of queue q2 writes what a transfer of queue q writes", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy c[:, 0:512:2], ta[:, 0:256], queue=q $done>=1 $free;
    dma_copy c[5:6, 511:512], ta[5:6, 0:1], queue=q2 $free;
    dma_copy c[5:6, 510:511], ta[5:6, 0:1], queue=q2 $free
]=])
bad("three ahead with two buffers", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++; memset ta, 2.0 $done++;
    memset tb, 2.0 $ack>=1 $done++
scalar: tensor_copy tc, ta $done>=1 $ack++; tensor_copy tc, tb $done>=2 $ack++;
    tensor_copy tc, ta $done>=3 $ack++; tensor_copy tc, tb $done>=4 $ack++
]=])
bad("a smaller second transfer signals less", "race: a transfer of queue qs reads what a transfer of queue q1 writes", [=[
q1 queue rings=4, dge=hwdge
sync: dma_copy h, a, queue=q1; dma_copy h2, b, queue=q2 $loaded
vector: nop $loaded>=16 $done++
scalar: nop $done>=1
gpsimd: dma_copy ta, h, queue=qs $done>=1 $ack
]=])
bad("length from a register, less written than read", "the first that was not written is in partition 0, byte 256", [=[
vector: mov r4, 64; memset ta[:, 0:+r4<=128], 1.0; tensor_copy tb[:, 0:128], ta[:, 0:128]
]=])
bad("wait compares with a register nobody wrote", "uninit: vector reads register r5, which nothing has written", [=[
sync: dma_copy ta, a, queue=q $loaded
vector: nop $loaded>=r5
]=])
bad("token goes round, one does not wait", "race: scalar writes what vector writes", [=[
vector: memset ta, 0.0; mov r0, 0; .l: tensor_scalar ta, ta, op0=add, imm0=1.0 $done++;
    add r0, r0, 1; blt r0, 4, .l
scalar: mov r0, 1; .l: tensor_scalar ta, ta, op0=add, imm0=1.0 $done>=r0 $ack++; add r0, r0, 1;
    ble r0, 4, .l
]=])
bad("gather of columns, index vector in another dimension, raced",
  "race: a transfer of queue q writes what a transfer of queue qs reads", [=[
v tensor float32[4, 128, 8]
index tensor int32[128, 1], const = {times 128 5}
ti tile sbuf int32[128, 1]
tv tile sbuf float32[4, 128, 8]
tw tile sbuf float32[4, 128, 8]
vector: memset tv, 1.0 $ack++
sync: dma_copy v, tv, queue=q $ack>=1 $free;
    dma_copy v[:, 5:6, :], tv[:, 0:1, :], queue=q $done>=1 $free
gpsimd: dma_copy ti, index, queue=qs $free>=16 $loaded;
    dma_copy tw, v.gather(ti, 1), queue=qs $loaded>=16 $go; nop $done++
]=])
bad("gather-transpose beside a write of its row", "race: a transfer of queue q writes what a transfer of queue qs reads", [=[
v tensor bfloat16[128, 64]
index tensor uint32[16, 1], const = {times 16 5}
ti tile sbuf uint32[16, 1]
tt tile sbuf bfloat16[64, 16]
vector: memset x[:, 0:64], 1.0 $ack++
sync: dma_copy v, x[:, 0:64], queue=q $ack>=1 $free;
    dma_copy v[5:6, :], x[5:6, 0:64], queue=q $done>=1 $free
gpsimd: dma_copy ti, index, queue=qs $free>=16 $loaded;
    dma_transpose tt, v[0:16, :].gather(ti, 0), queue=qs $loaded>=16 $go; nop $done++
]=])
bad("gather-transpose of a row nobody wrote", "the first that was not written is byte 8960", [=[
v tensor bfloat16[128, 64]
index tensor uint32[16, 1], const = {times 16 70}
ti tile sbuf uint32[16, 1]
tt tile sbuf bfloat16[64, 16]
vector: memset x[:, 0:64], 1.0 $ack++
gpsimd: dma_copy v[0:64, :], x[0:64, 0:64], queue=qs $ack>=1 $free;
    dma_copy ti, index, queue=qs $free>=16 $loaded;
    dma_transpose tt, v[0:16, :].gather(ti, 0), queue=qs $loaded>=16 $go
]=])
bad("scatter to rows another queue writes", "race: a transfer of queue qs writes what a transfer of queue q writes", [=[
ti tile sbuf int32[64, 1]
gpsimd: iota ti, pattern=[[0, 1]], multiplier=1; memset ta, 1.0; drain;
    dma_copy h[0:64, :].gather(ti, 0), ta[0:64, :], queue=qs $done
sync: dma_copy h[63:65, :], a[63:65, :], queue=q $free
]=])
bad("scatter indexes in no order with a pad out of bounds, read whole", "the first that was not written is byte 2048", [=[
ti tile sbuf int32[64, 1]
gpsimd: iota ti, pattern=[[0, 1]], multiplier=4; memset ta, 1.0; drain;
    dma_copy h[0:64, :].gather(ti, 0), ta[0:64, :], queue=qs, oob=skip $done;
    dma_copy tb[0:64, :], h[0:64, :], queue=qs $done>=16 $go
]=])
bad("topk list shorter than the tile", "the first that was not written is in partition 0, byte 7492", [=[
k1 tile sbuf bfloat16[16, 8]
k2 tile sbuf bfloat16[16, 32]
k3 tile sbuf uint32[16, 32]
k4 tile sbuf bfloat16[16, 32]
gpsimd: memset k1, 1.0; topk k2, k3, k1, n=128; tensor_copy k4, k2
]=])
bad("MX scales, one missing", "the first that was not written is in partition 4, byte 7488", [=[
mw tile sbuf float8_e4m3fn_x4[32, 16]
sw tile sbuf uint8[32, 16]
mx tile sbuf float8_e4m3fn_x4[32, 64]
sx tile sbuf uint8[32, 64]
fw tile sbuf bfloat16[32, 64]
fx tile sbuf bfloat16[32, 256]
vector: memset fw, 1.0; memset fx, 1.0; quantize_mx mw, sw, fw; quantize_mx mx, sx, fx $done++;
    tensor_copy fw[:, 0:16], sw
]=], "trn3")
bad("uninit through an activation bias", "the first that was not written is in partition 0, byte 7424", [=[
bi tile sbuf float32[128, 1]
vector: memset ta, 1.0 $done++
scalar: activate tb, ta, fn=copy, bias=bi $done>=1
]=])
bad("bias written late", "race: scalar reads what vector writes", [=[
bi tile sbuf float32[128, 1]
vector: memset ta, 1.0 $done++; memset bi, 1.0
scalar: activate tb, ta, fn=copy, bias=bi $done>=1
]=])
bad("accumulate auto without zero after a read", "psum: a matmul adds to a group that has been read already", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1 $go++
tensor: ldweights w $ack>=1; matmul pa, x, acc=auto $done++; matmul pa, x, acc=auto $go>=1
]=])
bad("PSUM overwritten by next zero while read", "race: vector reads what tensor writes", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=auto, psum_zero=pa $done++;
    matmul pb, x, acc=auto, psum_zero=pa $done++
]=])
bad("dma_compute sums what is not loaded", "race: a transfer of queue qq reads what a transfer of queue q writes", [=[
qq queue rings=16, dge=none
sync: dma_copy ta, a, queue=q $loaded;
    dma_compute c, srcs=[ta, a], op=add, queue=qq $loaded>=8 $done
]=])
bad("two stores of the same rows from two engines",
  "race: a transfer of queue q writes what a transfer of queue qs writes", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy c, ta, queue=q $done>=1 $free
gpsimd: dma_copy c[0:1, :], ta[0:1, :], queue=qs $done>=1 $free
]=])
bad("trn1: load on one ring set, reader early", "race: vector reads what a transfer of queue q writes", [=[
gpsimd: dma_copy ta, a, queue=q $loaded; dma_copy tb, b, queue=q $loaded
vector: tensor_copy tc, ta $loaded>=16
]=], "trn1")
bad("a != wait", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++
scalar: tensor_copy tc, tb $done!=0
]=])
bad("unsynchronised scatter by indirect", "race: vector writes what gpsimd writes", [=[
ti tile sbuf uint16[16, 4]
gpsimd: memset ta[:, 0:8], 1.0
vector: memset tb, 1.0; iota2: memset ti, 0; tensor_copy ta[:, 0:1].indirect(ti, 1), tb[:, 0:1]
]=], "trn3")
bad("tile reused under another name", "race: scalar reads what vector writes", [=[
o1 tile sbuf float32[128, 64], overlay=g
o2 tile sbuf float32[128, 64], overlay=g
vector: memset o1, 1.0 $done++; memset o2, 2.0
scalar: tensor_copy ta[:, 0:64], o1 $done>=1
]=])
bad("barrier with one too few", "race: vector reads what scalar writes", [=[
vector: memset ta, 1.0; drain; nop $go++; nop $go>=2; tensor_copy tc, tb
gpsimd: memset x, 1.0; drain; nop $go++; nop $go>=2
scalar: tensor_copy tb, ta $go>=1
]=])
bad("two thousand rounds, the last ones early", "race: scalar reads what vector writes", [=[
vector: mov r0, 0; mov r1, 0; .l: memset ta[:, r1:+1], 1.0 $done++; add r0, r0, 1;
    and r1, r0, 511; bne r1, 0, .n; nop $ack>=r0; .n: blt r0, 2000, .l
scalar: mov r0, 0; mov r1, 0; mov r2, 1;
    .l: tensor_copy tb[:, r1:+1], ta[:, r1:+1] $done>=r2 $ack++; add r0, r0, 1; and r1, r0, 511;
    min r2, r0, 1900; add r2, r2, 1; blt r0, 2000, .l
]=])
bad("a scatter to one row from two rings", "race: a transfer of queue qs writes bytes in ring 1 that its ring 0 writes", [=[
index   tensor int32[128, 1], const = {times 128 5}
ti tile sbuf int32[128, 1]
gpsimd: memset ta, 1.0; drain; dma_copy ti, index, queue=qs $loaded;
    dma_copy h.gather(ti, 0), ta, queue=qs $loaded>=16 $done
]=])
bad("gather that skips rows, the whole read", "the first that was not written is in partition 64, byte 0", [=[
index   tensor int32[128, 1], const = {times 64 5, times 64 1000}
ti tile sbuf int32[128, 1]
gpsimd: dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, a.gather(ti, 0), queue=qs, oob=skip $loaded>=16 $done;
    tensor_copy tb, ta $done>=16
]=])
bad("own tensor_store over a data path write in flight", "race: scalar reads what vector writes", [=[
ti tile sbuf int32[128, 512]
tj tile sbuf int32[1, 1]
vector: memset ti, 3; mov r1, 5; tensor_store ti[0, 0], r1; nop $done++
scalar: tensor_copy tb[0:1, 0:1], ti[0:1, 0:1] $done>=1
]=])
bad("index of local_gather still being written", "race: gpsimd reads what vector writes", [=[
ti tile sbuf uint16[128, 2]
vector: memset ti, 1
gpsimd: memset ta, 1.0; local_gather tb[:, 0:32], ta, ti
]=])
bad("waits with < pass at once", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0 $done++
scalar: tensor_copy tb, ta $done<1
]=])
bad("<= one too many", "race: scalar reads what vector writes", [=[
vector: nop $done+=2; nop $go++; memset ta, 1.0 $done--; memset tb, 1.0 $done--
scalar: nop $go>=1; tensor_copy tc, tb $done<=1
]=])
bad("credits taken by two, both want the first buffer", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++
scalar: event_semaphore $done>=1 $done--; tensor_copy tc[:, 0:256], tb[:, 0:256]
gpsimd: event_semaphore $done>=1 $done--; tensor_copy tc[:, 256:512], tb[:, 256:512]
]=])
bad("mutex that is given back too early", "race: gpsimd writes what scalar writes", [=[
sync: nop $free++
vector: memset tb, 0.0 $ack++
scalar: nop $ack>=1; event_semaphore $free>=1 $free--; tensor_scalar tb, tb, op0=add, imm0=1.0;
    nop $free++
gpsimd: nop $ack>=1; event_semaphore $free>=1 $free--; tensor_copy tb, tb $free++
]=])
bad("activation table accumulators read too early by DMA", "race: a transfer of queue q reads what scalar writes", [=[
s1 tile sbuf float32[128, 1]
o tensor float32[128, 1], output
vector: memset ta, 1.0 $done++
scalar: activate tb, ta, fn=copy, reduce=reset_reduce $done>=1 $ack++; act_read_acc s1
sync: dma_copy o, s1, queue=q $ack>=1 $free
]=])
bad("subroutine writes the tile after the signal", "race: scalar reads what vector writes", [=[
vector: call r1, .f; nop $done++; halt; .f: memset ta, 1.0; ret r1
scalar: tensor_copy tb, ta $done>=1
]=])
bad("store then another queue loads the buffer again",
  "race: a transfer of queue q2 writes what a transfer of queue q reads", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy h, ta, queue=q $done>=1; dma_copy ta, a, queue=q2 $loaded
]=])
bad("matmul operands on other partitions still moving", "race: tensor reads what a transfer of queue q writes", [=[
z tensor bfloat16[128, 512], const = {times 65536 1}
sync: dma_copy x[0:64, :], z[0:64, :], queue=q $loaded;
    dma_copy x[64:128, :], z[64:128, :], queue=q2 $loaded
vector: memset w, 1.0 $ack++
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $loaded>=16
]=])
bad("reads a broadcast of a scalar in HBM while it is stored",
  "race: a transfer of queue q2 reads what a transfer of queue q writes", [=[
k tensor float32[1, 1]
s1 tile sbuf float32[128, 1]
vector: memset s1, 1.0 $done++
sync: dma_copy k, s1[0:1, :], queue=q $done>=1 $free;
    dma_copy ta[:, 0:1], k.broadcast(0, 128), queue=q2 $loaded
]=])
bad("handshake by three values, whose own writes are still under way",
  "race: scalar waits for $go == 1, which only the timing satisfied", [=[
vector: mov r0, 0; .l: memset ta, 1.0; drain; event_semaphore $go=1; nop $go==2; add r0, r0, 1;
    blt r0, 4, .l
scalar: mov r0, 0; .l: nop $go==1; tensor_copy tb, ta; drain; event_semaphore $go=2;
    add r0, r0, 1; blt r0, 4, .l
]=])
bad("a flag set twice by two engines", "race: scalar reads what gpsimd writes", [=[
vector: memset ta, 1.0; drain; event_semaphore $go=1
gpsimd: memset tb, 1.0; drain; event_semaphore $go=1
scalar: tensor_tensor2: nop $go>=1; tensor_copy tc, ta; tensor_copy tc, tb
]=])
bad("MX scales, three partitions loaded", "the first that was not written is in partition 3, byte 7552", [=[
mw tile sbuf float8_e4m3fn_x4[32, 16]
mv tile sbuf float8_e4m3fn_x4[32, 16]
sw tile sbuf uint8[32, 16]
sv tile sbuf uint8[32, 16]
fw tile sbuf bfloat16[32, 64]
zs tensor uint8[4, 64], const = {times 256 127}
sync: dma_copy sw[0:3, :], zs[0:3, 0:16], queue=q $loaded
vector: memset fw, 1.0; quantize_mx mw, sv, fw $done++
tensor: nop $loaded>=16; ldweights_mx mw, sw $done>=1
]=], "trn3")
bad("range_select takes one more than is there", "what it chooses for row 0 of its destination was not written", [=[
b0 tile sbuf float32[128, 1]
b1 tile sbuf float32[128, 1]
vector: memset ta[:, 0:100], 1.0; memset b0, 0.0; memset b1, 100.0;
    range_select tb, ta, bound0=b0, bound1=b1, op0=is_ge, op1=is_le
]=])
bad("transposed static DMA of four dimensions and a write",
  "race: a transfer of queue q writes what a transfer of queue qq reads", [=[
z tensor bfloat16[16, 4, 8, 32]
t4 tile sbuf bfloat16[32, 4, 8, 16]
y4 tile sbuf bfloat16[16, 4, 8, 32]
qq queue rings=16, dge=none
vector: memset y4, 1.0 $ack++
sync: dma_copy z, y4, queue=q $ack>=1 $loaded; nop $loaded>=16;
    dma_transpose t4[0:16], z[:, :, :, 0:16], queue=qq $done;
    dma_copy z[:, :, :, 15:31], y4[:, :, :, 16:32], queue=q $free
]=])
bad("two engines swap without a buffer", "race: scalar writes what vector reads", [=[
vector: memset ta, 1.0 $done++; tensor_copy tb, ta $ack>=1
scalar: nop $ack++; tensor_copy ta, tb $done>=1
]=])
bad("semaphore too high is met by another's updates", "race: scalar reads what vector writes", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++
gpsimd: memset x, 1.0 $done++
scalar: tensor_copy tc, tb $done>=2
]=])
bad("two engines set a flag to different values", "race: gpsimd sets $go and sync updates it", [=[
sync: event_semaphore $go=1
gpsimd: event_semaphore $go=2
scalar: nop $go>=1
]=])
bad("an engine clears what another one sets", "race: sync sets $go and vector updates it", [=[
vector: event_semaphore $go=1
sync: nop $loaded>=0; nop $done>=0; nop $ack>=0; sem_range_clear 3, 1
scalar: nop $done>=0
gpsimd: nop $go>=0
]=])

require "harness".finish()
