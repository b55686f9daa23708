; y = w2' gelu(w1' x + b1) + b2: D features to H and back, for 512 tokens; features on partitions.
; bfloat16 in, fp32 sums and out.
;   -D D=n -D H=n   multiples of 128
        target  trn2
%assign DT (D) / 128
%assign HT (H) / 128
x       tensor  bfloat16[D, 512], input
w1      tensor  bfloat16[D, H], input
b1      tensor  float32[H, 1], input
w2      tensor  bfloat16[H, D], input
b2      tensor  float32[D, 1], input
y       tensor  float32[D, 512], output
tx      tile    sbuf bfloat16[128, DT, 512]
tw1     tile    sbuf bfloat16[128, DT, H]
tb1     tile    sbuf float32[128, HT]
tw2     tile    sbuf bfloat16[128, HT, D]
tb2     tile    sbuf float32[128, DT]
h       tile    sbuf bfloat16[128, HT, 512]
p0      tile    psum float32[128, 512]
p1      tile    psum float32[128, 512]
q       tile    psum float32[128, 512]
ty      tile    sbuf float32[128, 512]
full    sem
raw     sem
hidden  sem
summed  sem
done    sem
stored  sem
qin     queue   rings=16, dge=hwdge
qout    queue   rings=16, dge=swdge

section sync
        dma_copy  tx, bfloat16@hbm[x,0][1,512*128,512][512,DT,128], queue=qin  $full
        dma_copy  tw1, bfloat16@hbm[w1,0][1,H*128,H][H,DT,128], queue=qin      $full
        dma_copy  tb1, float32@hbm[b1,0][128,1][HT,128], queue=qin             $full
        dma_copy  tw2, bfloat16@hbm[w2,0][1,D*128,D][D,HT,128], queue=qin      $full
        dma_copy  tb2, float32@hbm[b2,0][128,1][DT,128], queue=qin             $full
        halt

section tensor
        nop       $full>=80
%assign j 0
%rep HT
%assign i j % 2
%assign k 0
%rep DT
        ldweights tw1[:, k, j*128:j*128+128]
%if k == 0
        matmul    p%+i, tx[:, k, :], acc=write  $hidden>=(j>1)*(j-1) $raw++
%else
        matmul    p%+i, tx[:, k, :], acc=add    $raw++
%endif
%assign k k + 1
%endrep
%assign j j + 1
%endrep
        nop       $hidden>=HT
%assign j 0
%rep DT
%assign k 0
%rep HT
        ldweights tw2[:, k, j*128:j*128+128]
%if k == 0
        matmul    q, h[:, k, :], acc=write  $done>=j $summed++
%else
        matmul    q, h[:, k, :], acc=add    $summed++
%endif
%assign k k + 1
%endrep
%assign j j + 1
%endrep
        halt

section scalar
        nop       $full>=80
%assign j 0
%rep HT
%assign i j % 2
        activate  h[:, j, :], p%+i, fn=gelu, bias=tb1[:, j:j+1]  $raw>=(j+1)*DT $hidden++
%assign j j + 1
%endrep
        halt

section vector
        nop       $full>=80
%assign j 0
%rep DT
        nop       $stored>=16*j
        tensor_scalar ty, q, op0=add, imm0=tb2[:, j:j+1]  $summed>=(j+1)*HT $done++
%assign j j + 1
%endrep
        halt

section gpsimd
%assign j 0
%rep DT
        dma_copy  y[j*128:j*128+128, :], ty, queue=qout  $done>=j+1 $stored
%assign j j + 1
%endrep
        halt
