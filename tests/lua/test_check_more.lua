-- More faulty programs and right ones: writes of semaphores, MX scales, ranges, transposes.
local bed = require "check_bed"
local bad, good = bed.bad, bed.good

good("credits set by a write", [=[
sync: event_semaphore $free=2
vector: mov r0, 0; .l: event_semaphore $free>=1 $free--; nop $ack>=r0; memset ta, 1.0 $done++;
    add r0, r0, 1; blt r0, 5, .l
scalar: mov r0, 1; .l: tensor_copy tb, ta $done>=r0 $ack++; nop $ack>=r0 $free++; add r0, r0, 1;
    ble r0, 5, .l
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
good("two engines set a flag to the same value", [=[
sync: event_semaphore $go=1
gpsimd: event_semaphore $go=1
scalar: nop $go>=1
]=])

require "harness".finish()
