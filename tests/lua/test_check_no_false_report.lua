-- Right programs that look wrong: no check may accuse them, and no timing changes their bits.
local bed = require "check_bed"
local good = bed.good

good("DMA gather of rows of a temp that are written", [=[
index   tensor int32[128, 1], const = {times 64 0, times 64 60}
ti tile sbuf int32[128, 1]
gpsimd: dma_copy h[0:64, :], a[0:64, :], queue=qs $loaded; dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, h.gather(ti, 0), queue=qs $loaded>=32 $done; nop $done>=16;
    dma_copy c, ta, queue=qs $go
]=])
good("local_gather of elements that are written", [=[
ti tile sbuf uint16[128, 2]
gpsimd: memset ta[:, 0:8], 1.0; memset ti, 7; local_gather tb[:, 0:32], ta, ti
]=])
good("n_gather of elements that are written", [=[
ti tile sbuf uint32[128, 16]
gpsimd: memset ta[:, 0:8], 1.0; memset ti, 7; n_gather tb[:, 0:16], ta, ti
]=])
good("copy_predicated, the selected half is read", [=[
p tile sbuf uint8[128, 512]
vector: memset p[:, 0:256], 1; memset p[:, 256:512], 0; memset ta[:, 0:256], 1.0;
    copy_predicated tb, src=ta, pred=p; tensor_copy tc[:, 0:256], tb[:, 0:256]
]=])
good("affine_select fills what was not loaded", [=[
gpsimd: memset ta[:, 0:256], 1.0;
    affine_select tb, ta, 0.0, pattern=[[-1, 512]], offset=255, cmp=is_ge; tensor_copy tc, tb
]=])
good("select_reduce of a masked half", [=[
p tile sbuf uint8[128, 512]
vector: memset p[:, 0:256], 1; memset p[:, 256:512], 0; memset ta[:, 0:256], 1.0;
    select_reduce tb, ta, -1.0, pred=p
]=])
good("two accumulations on one queue", [=[
qs2 queue rings=16, dge=swdge
vector: memset ta, 1.0; memset tb, 2.0; drain; nop $go++
gpsimd: nop $go>=1; dma_copy h, a, queue=qs $loaded; nop $loaded>=16;
    dma_copy h, ta, queue=qs, op=add $done; dma_copy h, tb, queue=qs, op=add $done;
    dma_copy c, h, queue=qs $done>=32
]=])
good("HBM rows apart on two queues", [=[
sync: dma_copy c[0:64, :], a[0:64, :], queue=q $loaded;
    dma_copy c[64:128, :], b[64:128, :], queue=q2 $loaded
]=])
good("ping pong with registers", [=[
sync: mov r0, 0; .l: dma_copy ta[:, 0:64], a[:, 0:64], queue=q $free>=r0 $loaded;
    dma_copy ta[:, 64:128], a[:, 64:128], queue=q $ack>=r0 $go; add r0, r0, 1; blt r0, 8, .l;
    nop $free>=8; nop $ack>=8; dma_copy c[:, 0:128], tb[:, 0:128], queue=q $done
vector: mov r1, 16; .l: tensor_copy tb[:, 0:64], ta[:, 0:64] $loaded>=r1 $free++;
    tensor_copy tb[:, 64:128], ta[:, 64:128] $go>=r1 $ack++; add r1, r1, 16; ble r1, 128, .l
]=])
good("register addresses apart", [=[
vector: mov r0, 64; memset ta[:, r0:+64], 1.0
gpsimd: mov r0, 0; memset ta[:, r0:+64], 2.0
]=])
good("transposed DMA beside a write of other columns (sbuf)", [=[
tt tile sbuf bfloat16[64, 16]
vector: memset w, 1.0 $ack++
gpsimd: memset w[:, 64:128], 2.0 $ack>=1
sync: dma_transpose tt, w[0:16, 0:64], queue=q2 $ack>=1 $done
]=])
good("transposed DMA beside a write of other columns (hbm)", [=[
tt tile sbuf bfloat16[64, 16]
z tensor bfloat16[128, 128]
vector: memset w, 1.0 $ack++
sync: dma_copy z, w, queue=q $ack>=1 $loaded;
    dma_transpose tt, z[0:16, 0:64], queue=q2 $loaded>=16 $done;
    dma_copy z[:, 64:128], w[:, 64:128], queue=q $free
]=])
good("transposed DMA beside a write of other rows (sbuf)", [=[
tt tile sbuf bfloat16[64, 16]
vector: memset w, 1.0 $ack++
gpsimd: memset w[32:64, :], 2.0 $ack>=1
sync: dma_transpose tt, w[0:16, 0:64], queue=q2 $ack>=1 $done
]=])
good("indirect reads what is written", [=[
ti tile sbuf uint16[16, 4]
gpsimd: memset ta[:, 16:32], 1.0
vector: memset ta[:, 0:8], 1.0; memset ti, 7; tensor_copy tb[:, 0:64], ta.indirect(ti, 64)
]=], "trn3")
good("loop with answers", [=[
vector: mov r0, 0; .l: memset ta, 1.0 $ack>=r0 $done++; add r0, r0, 1; blt r0, 4, .l
scalar: mov r0, 1; .l: tensor_copy tb, ta $done>=r0 $ack++; add r0, r0, 1; ble r0, 4, .l
]=])
good("nonzero counts one partition in sixteen", [=[
n1 tile sbuf float32[128, 32]
n2 tile sbuf int32[128, 33]
ii tile sbuf int32[16, 33]
gpsimd: memset n1[0:1, :], 1.0; nonzero_with_count n2[0:16, :], n1[0:16, :], padding=-1;
    tensor_copy ii[0:1, :], n2[0:1, :]
]=])
good("shuffle of one partition to all", [=[
vector: memset ta[0:1, :], 1.0;
    load_mask_register [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0];
    shuffle tb[0:32, :], ta[0:32, :]; tensor_copy tc[0:32, :], tb[0:32, :]
]=])
good("interleaved strides", [=[
vector: memset ta[:, 0:512:2], 1.0 $done++
gpsimd: memset ta[:, 1:512:2], 2.0 $done++
sync: dma_copy c, ta, queue=q $done>=2 $free
]=])
good("@read gives back a buffer", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy ta, b, queue=q $free>=1 $loaded
vector: tensor_copy tb, ta $loaded>=16 $free++@read; tensor_copy tc, ta $loaded>=32
]=])
good("shared counter, waits for the total", [=[
sync: dma_copy ta, a, queue=q $loaded; dma_copy tb, b, queue=q2 $loaded
vector: tensor_tensor tc, ta, tb, op=add $loaded>=32 $done++
scalar: tensor_copy ta, tc $done>=1
]=])
good("static queue", [=[
qq queue rings=16, dge=none
dma qq, ta, a
dma qq, tb, b
sync: dma_trigger qq, 2 $loaded
vector: tensor_tensor tc, ta, tb, op=add $loaded>=32 $done++
]=])
good("static queue, in order", [=[
qq queue rings=16, dge=none
dma qq, ta, a
dma qq, tb, b
sync: dma_trigger qq, 2 $loaded
vector: tensor_copy tc, ta $loaded>=32 $done++
]=])
good("tensor_load after own write", [=[
ti tile sbuf int32[1, 4]
vector: memset ti, 3; tensor_load r1, ti[0, 1]; memset ta[:, r1:+1], 1.0
]=])
good("credits with dec", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++
scalar: event_semaphore $done>=1 $done--; tensor_copy tc, ta; event_semaphore $done>=1 $done--;
    tensor_copy tc, tb
]=])
good("matmul groups in two banks", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=2;
    tensor_copy tc, pb $done>=4
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++; matmul pa, x, acc=add $done++;
    matmul pb, x, acc=write $done++; matmul pb, x, acc=add $done++
]=])
good("reset between rounds with an answer", [=[
vector: mov r0, 1; .l: memset ta, 1.0 $done++; event_semaphore $ack>=1 $ack--; add r0, r0, 1;
    ble r0, 3, .l
scalar: mov r0, 1; .l: event_semaphore $done>=1 $done=0; tensor_copy tc, ta $go++;
    event_semaphore $go>=1 $go=0; nop $ack++; add r0, r0, 1; ble r0, 3, .l
]=])
good("DMA completions reset between rounds", [=[
sync: mov r0, 0; .l: dma_copy ta, a, queue=q $loaded; event_semaphore $ack>=1 $ack=0;
    add r0, r0, 1; blt r0, 3, .l
vector: mov r0, 0; .l: event_semaphore $loaded>=16 $loaded=0; tensor_copy tb, ta $free++;
    event_semaphore $free>=1 $free=0; nop $ack++; add r0, r0, 1; blt r0, 3, .l
]=])
good("index overwritten after a signal of the trigger", [=[
index   tensor int32[128, 1], const = {times 128 0}
ti tile sbuf int32[128, 1]
gpsimd: dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, a.gather(ti, 0), queue=qs $loaded>=16 $done; nop $ack++
vector: memset ti, 3 $ack>=1
]=])
good("tensor_store then own DMA", [=[
ti tile sbuf int32[1, 1]
o tensor int32[1, 1], output
sync: mov r1, 5; tensor_store ti[0, 0], r1; dma_copy o, ti, queue=q $done
]=])
good("w rewritten when the weights are signalled", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; memset w, 2.0 $done>=1
tensor: ldweights w $ack>=1 $done++; matmul pa, x, acc=write
]=])
good("matmul @read gives x back", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; memset x, 2.0 $done>=1
tensor: ldweights w $ack>=1; matmul pa, x, acc=write $done++@read
]=])
good("HBM even and odd columns on two queues", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy c[:, 0:512:2], ta[:, 0:256], queue=q $done>=1 $free;
    dma_copy c[:, 1:512:2], ta[:, 0:256], queue=q2 $free
]=])
good("two ahead with two buffers", [=[
vector: memset ta, 1.0 $done++; memset tb, 1.0 $done++; memset ta, 2.0 $ack>=1 $done++;
    memset tb, 2.0 $ack>=2 $done++
scalar: tensor_copy tc, ta $done>=1 $ack++; tensor_copy tc, tb $done>=2 $ack++;
    tensor_copy tc, ta $done>=3 $ack++; tensor_copy tc, tb $done>=4 $ack++
]=])
good("one ring keeps everything in order", [=[
q1 queue rings=1, dge=hwdge
sync: dma_copy h, a, queue=q1 $loaded; dma_copy c[0:64, :], h[64:128, :], queue=q1 $done
]=])
good("the second transfer of a queue signals the first too", [=[
sync: dma_copy ta, a, queue=q; dma_copy tb, b, queue=q $loaded
vector: tensor_tensor tc, ta, tb, op=add $loaded>=16
]=])
good("a token goes round", [=[
vector: memset ta, 1.0; mov r0, 0; .l: tensor_scalar ta, ta, op0=add, imm0=1.0 $go>=r0 $done++;
    add r0, r0, 1; blt r0, 4, .l
scalar: mov r0, 1; .l: tensor_scalar ta, ta, op0=add, imm0=1.0 $done>=r0 $ack++; add r0, r0, 1;
    ble r0, 4, .l
gpsimd: mov r0, 1; .l: tensor_scalar ta, ta, op0=rsqrt $ack>=r0 $go++; add r0, r0, 1;
    ble r0, 4, .l
]=])
good("gather of columns, index vector in another dimension", [=[
v tensor float32[4, 128, 8]
index tensor int32[128, 1], const = {times 128 5}
ti tile sbuf int32[128, 1]
tv tile sbuf float32[4, 128, 8]
tw tile sbuf float32[4, 128, 8]
vector: memset tv, 1.0 $ack++
sync: dma_copy v, tv, queue=q $ack>=1 $free;
    dma_copy v[:, 6:8, :], tv[:, 0:2, :], queue=q $done>=1 $free
gpsimd: dma_copy ti, index, queue=qs $free>=16 $loaded;
    dma_copy tw, v.gather(ti, 1), queue=qs $loaded>=16 $go; nop $done++
]=])
good("gather-transpose beside a write of other rows", [=[
v tensor bfloat16[128, 64]
index tensor uint32[16, 1], const = {times 16 5}
ti tile sbuf uint32[16, 1]
tt tile sbuf bfloat16[64, 16]
vector: memset x[:, 0:64], 1.0 $ack++
sync: dma_copy v, x[:, 0:64], queue=q $ack>=1 $free;
    dma_copy v[6:8, :], x[6:8, 0:64], queue=q $done>=1 $free
gpsimd: dma_copy ti, index, queue=qs $free>=16 $loaded;
    dma_transpose tt, v[0:16, :].gather(ti, 0), queue=qs $loaded>=16 $go; nop $done++
]=])
good("scatter beside rows another queue writes", [=[
ti tile sbuf int32[64, 1]
gpsimd: iota ti, pattern=[[0, 1]], multiplier=1; memset ta, 1.0; drain;
    dma_copy h[0:64, :].gather(ti, 0), ta[0:64, :], queue=qs $done
sync: dma_copy h[64:128, :], a[64:128, :], queue=q $free; nop $done>=16;
    dma_copy c, h, queue=q $free>=16 $go
]=])
good("topk, the list alone", [=[
k1 tile sbuf bfloat16[16, 8]
k2 tile sbuf bfloat16[16, 32]
k3 tile sbuf uint32[16, 32]
k4 tile sbuf bfloat16[16, 32]
gpsimd: memset k1[:, 0:4], 1.0; topk k2, k3, k1, n=64; tensor_copy k4[:, 0:2], k2[:, 0:2]
]=])
good("MX scales in four partitions of a quadrant", [=[
mw tile sbuf float8_e4m3fn_x4[32, 16]
sw tile sbuf uint8[32, 16]
mx tile sbuf float8_e4m3fn_x4[32, 64]
sx tile sbuf uint8[32, 64]
fw tile sbuf bfloat16[32, 64]
fx tile sbuf bfloat16[32, 256]
vector: memset fw, 1.0; memset fx, 1.0; quantize_mx mw, sw, fw; quantize_mx mx, sx, fx $done++
tensor: ldweights_mx mw, sw $done>=1; matmul_mx pa[0:16, 0:64], mx, sx, acc=write
]=], "trn3")
good("accumulate auto with zero", [=[
vector: memset w, 1.0; memset x, 1.0 $ack++; tensor_copy tb, pa $done>=1 $go++;
    tensor_copy tb, pa $done>=2 $go++
tensor: ldweights w $ack>=1; matmul pa, x, acc=auto, psum_zero=pa $done++;
    matmul pa, x, acc=auto, psum_zero=pa $go>=1 $done++
]=])
good("dma_compute", [=[
qq queue rings=16, dge=none
sync: dma_copy ta, a, queue=q $loaded;
    dma_compute c, srcs=[ta, a], op=add, queue=qq $loaded>=16 $done
]=])
good("trn1: right", [=[
gpsimd: dma_copy ta, a, queue=q $loaded; dma_copy tb, b, queue=q $loaded
vector: tensor_copy tc, ta $loaded>=32 $done++
scalar: activate ta, tc, fn=copy $done>=1 $ack++
]=], "trn1")
good("select in place", [=[
p tile sbuf uint8[128, 512]
vector: memset p, 1; memset ta, 1.0; memset tb, 2.0; copy_predicated ta, src=tb, pred=p;
    tensor_copy tc, ta
]=])
good("two thousand rounds", [=[
vector: mov r0, 0; mov r1, 0; .l: memset ta[:, r1:+1], 1.0 $done++; add r0, r0, 1;
    and r1, r0, 511; bne r1, 0, .n; nop $ack>=r0; .n: blt r0, 2000, .l
scalar: mov r0, 0; mov r1, 0; mov r2, 1;
    .l: tensor_copy tb[:, r1:+1], ta[:, r1:+1] $done>=r2 $ack++; add r0, r0, 1; and r1, r0, 511;
    min r2, r0, 5000; add r2, r2, 1; blt r0, 2000, .l
]=])
good("gather that skips rows, the others read", [=[
index   tensor int32[128, 1], const = {times 64 5, times 64 1000}
ti tile sbuf int32[128, 1]
gpsimd: dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, a.gather(ti, 0), queue=qs, oob=skip $loaded>=16 $done;
    tensor_copy tb[0:64, :], ta[0:64, :] $done>=16
]=])
good("gather that skips rows over zeros", [=[
index   tensor int32[128, 1], const = {times 64 5, times 64 1000}
ti tile sbuf int32[128, 1]
gpsimd: memset ta, 0.0; drain; dma_copy ti, index, queue=qs $loaded;
    dma_copy ta, a.gather(ti, 0), queue=qs, oob=skip $loaded>=16 $done;
    tensor_copy tb, ta $done>=16
]=])
good("scatter that skips what nobody wrote", [=[
index   tensor int32[128, 1], const = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, times 96 1000}
ti tile sbuf int32[128, 1]
gpsimd: memset ta[0:32, :], 0.0; drain; dma_copy ti, index, queue=qs $loaded;
    dma_copy h.gather(ti, 0), ta, queue=qs, oob=skip $loaded>=16 $done
]=])
good("<= on a falling credit", [=[
vector: nop $done+=2; nop $go++; memset ta, 1.0 $done--; memset tb, 1.0 $done--
scalar: nop $go>=1; tensor_copy tc, tb $done<=0
]=])
good("credits taken by two, either is enough", [=[
vector: memset tb, 1.0 $done+=2
scalar: event_semaphore $done>=1 $done--; tensor_copy tc[:, 0:256], tb[:, 0:256]
gpsimd: event_semaphore $done>=1 $done--; tensor_copy tc[:, 256:512], tb[:, 256:512]
]=])
good("mutex with event_semaphore", [=[
sync: nop $free++
vector: memset tb, 0.0 $ack++
scalar: nop $ack>=1; event_semaphore $free>=1 $free--;
    tensor_scalar tb, tb, op0=add, imm0=1.0 $free++
gpsimd: nop $ack>=1; event_semaphore $free>=1 $free--; tensor_copy tb, tb $free++
]=])
good("partitions apart", [=[
vector: memset ta[0:64, :], 1.0 $done++
gpsimd: memset ta[64:128, :], 1.0 $done++
]=])
good("store then the same queue loads the buffer again", [=[
vector: memset ta, 1.0 $done++
sync: dma_copy h, ta, queue=q $done>=1; dma_copy ta, a, queue=q $loaded
]=])
good("credits set by a write", [=[
sync: event_semaphore $free=2
vector: mov r0, 0; .l: event_semaphore $free>=1 $free--; nop $ack>=r0; memset ta, 1.0 $done++;
    add r0, r0, 1; blt r0, 5, .l
scalar: mov r0, 1; .l: tensor_copy tb, ta $done>=r0 $ack++; nop $ack>=r0 $free++; add r0, r0, 1;
    ble r0, 5, .l
]=])
good("MX scales loaded into four partitions of a quadrant", [=[
mw tile sbuf float8_e4m3fn_x4[32, 16]
sw tile sbuf uint8[32, 16]
fw tile sbuf bfloat16[32, 64]
mx tile sbuf float8_e4m3fn_x4[32, 64]
sx tile sbuf uint8[32, 64]
fx tile sbuf bfloat16[32, 256]
s2 tile sbuf uint8[32, 16]
s3 tile sbuf uint8[32, 64]
zs tensor uint8[4, 64], const = {times 256 127}
sync: dma_copy sx[0:4, :], zs, queue=q $loaded; dma_copy sw[0:4, :], zs[:, 0:16], queue=q $loaded
vector: memset fw, 1.0; memset fx, 1.0; quantize_mx mw, s2, fw; quantize_mx mx, s3, fx $done++
tensor: nop $loaded>=32; ldweights_mx mw, sw $done>=1;
    matmul_mx pa[0:16, 0:64], mx, sx, acc=write
]=], "trn3")
good("range_select takes what is there", [=[
b0 tile sbuf float32[128, 1]
b1 tile sbuf float32[128, 1]
vector: memset ta[:, 0:100], 1.0; memset b0, 0.0; memset b1, 100.0;
    range_select tb, ta, bound0=b0, bound1=b1, op0=is_ge, op1=is_lt; tensor_copy tc, tb
]=])
good("copy_predicated of an immediate, then the rest", [=[
p tile sbuf uint8[128, 512]
vector: memset p[:, 0:256], 1; memset p[:, 256:512], 0; copy_predicated tb, imm=0.0, pred=p;
    copy_predicated tb, imm=1.0, pred=p, reverse_pred=true; tensor_copy tc, tb
]=])
good("transposed static DMA of four dimensions beside a write", [=[
z tensor bfloat16[16, 4, 8, 32]
t4 tile sbuf bfloat16[32, 4, 8, 16]
y4 tile sbuf bfloat16[16, 4, 8, 32]
qq queue rings=16, dge=none
vector: memset y4, 1.0 $ack++
sync: dma_copy z, y4, queue=q $ack>=1 $loaded; nop $loaded>=16;
    dma_transpose t4[0:16], z[:, :, :, 0:16], queue=qq $done;
    dma_copy z[:, :, :, 16:32], y4[:, :, :, 16:32], queue=q $free
]=])
good("two engines set a flag to the same value", [=[
sync: event_semaphore $go=1
gpsimd: event_semaphore $go=1
scalar: nop $go>=1
]=])

require "harness".finish()
