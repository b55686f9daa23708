; out[SQ, 128] = softmax(q^T k / sqrt(128)) v, 128 queries at a time:
;   tensor  s = q^T k;  p^T by blocks of 128 keys;  o = sum of p^T v
;   vector  m = -max(s) / sqrt(128), copies of p^T, out = o / sum
;   scalar  p = exp(s / sqrt(128) + m) in bf16, sum(p)
; bf16 in, fp32 sums and out. Unrolled, so that every wait has its number.
;   -D SQ=n -D S=n   queries, a multiple of 128; keys, 512, 1024, 1536 or 2048
        target  trn2
%ifndef SQ
%define SQ 256
%endif
%ifndef S
%define S 1024
%endif
%if (SQ) % 128 != 0 || (S) % 512 != 0 || (S) > 2048
%error SQ must be a multiple of 128, S of 512 and at most 2048
%endif
%define SCALE 0.08838834764831845       ; 1 / sqrt(128)
%assign BLOCKS (SQ) / 128
%assign CHUNKS (S) / 128                ; of keys, for each block

q       tensor  bfloat16[128, SQ], input        ; transposed, as is k: the contraction is outermost
k       tensor  bfloat16[128, S], input
v       tensor  bfloat16[S, 128], input
out     tensor  float32[SQ, 128], output

tq      tile    sbuf bfloat16[128, SQ]
tk      tile    sbuf bfloat16[128, S]
tv      tile    sbuf bfloat16[128, CHUNKS, 128]
one     tile    sbuf bfloat16[128, 128]
id      tile    sbuf bfloat16[128, 128]
s       tile    psum float32[128, S], banks=(S)/512
m       tile    sbuf float32[128, 1]
p       tile    sbuf bfloat16[128, S]
sum     tile    sbuf float32[128, 1]
pt0     tile    psum bfloat16[128, 128]
pt1     tile    psum bfloat16[128, 128]
tp0     tile    sbuf bfloat16[128, 128]
tp1     tile    sbuf bfloat16[128, 128]
o       tile    psum float32[128, 128]
to      tile    sbuf float32[128, 128]

loaded  sem                             ; + 16 for each of q, k and v
ready   sem                             ; + 1: the identity
scored  sem                             ; + 1 a block: s
maxed   sem                             ; + 1 a block: m
expd    sem                             ; + 1 a block: p and sum; s and m are free
turned  sem                             ; + 1 a chunk: p^T in PSUM
copied  sem                             ; + 1 a chunk: in SBUF
used    sem                             ; + 1 a chunk: multiplied
scaled  sem                             ; + 1 a block: to; o and sum are free
stored  sem                             ; + 16 a block
qin     queue   rings=16, dge=hwdge
qout    queue   rings=16, dge=hwdge

section sync
        dma_copy  tq, q, queue=qin      $loaded
        dma_copy  tk, k, queue=qin      $loaded
        ; row 128 * c + p of v goes to partition p, chunk c: one transfer, as each costs the queue 600 ns
        dma_copy  tv, bfloat16@hbm[v,0][1,128*128,128][128,CHUNKS,128], queue=qin  $loaded
%assign b 0
%rep BLOCKS
        dma_copy  out[b*128:b*128+128, :], to, queue=qout  $scaled>=b+1 $stored
%assign b b + 1
%endrep
        halt

section gpsimd                          ; ones where partition - column = 0
        memset    one, 1.0
        affine_select id, one, 0.0, pattern=[[-1, 128]], multiplier=1, cmp=is_equal  $ready++
        halt

section tensor
        nop                             $ready>=1
        nop                             $loaded>=48
%assign b 0
%assign n 0                             ; chunks so far
%rep BLOCKS
        ldweights tq[:, b*128:b*128+128]
%assign j 0
%rep (S) / 512
        matmul    s[:, j*512:j*512+512], tk[:, j*512:j*512+512], acc=write  $expd>=b $scored++
%assign j j + 1
%endrep
%assign c 0
%rep CHUNKS + 1                         ; a chunk is turned while vector copies the one before
%if c < CHUNKS
%assign i n % 2
%if n >= 2
        nop                             $copied>=n-1
%endif
        nc_transpose pt%+i, p[:, c*128:c*128+128], identity=id  $expd>=b+1 $turned++
%assign n n + 1
%endif
%if c > 0
%if c < CHUNKS
%assign last n - 1                      ; number of the chunk before
%else
%assign last n
%endif
%assign i (last - 1) % 2
        ldweights tp%+i                 $copied>=last
%if c == 1
        matmul    o, tv[:, c-1, :], acc=write  $scaled>=b $used++
%else
        matmul    o, tv[:, c-1, :], acc=add    $used++
%endif
%endif
%assign c c + 1
%endrep
%assign b b + 1
%endrep
        halt

section vector
%assign b 0
%assign n 0
%rep BLOCKS
        nop                             $expd>=b
        tensor_reduce m, s, op=max, axes=1, negate=true  $scored>=((S)/512)*(b+1)
        tensor_scalar m, m, op0=mult, imm0=SCALE         $maxed++
%assign c 0
%rep CHUNKS
%assign i n % 2
%if n >= 2
        nop                             $used>=n-1
%endif
        tensor_copy tp%+i, pt%+i  $turned>=n+1 $copied++
%assign n n + 1
%assign c c + 1
%endrep
        reciprocal sum, sum             $used>=n
        nop                             $stored>=16*b
        tensor_scalar to, o, op0=mult, imm0=sum  $scaled++
%assign b b + 1
%endrep
        halt

section scalar
%assign b 0
%rep BLOCKS
        nop                             $used>=CHUNKS*b
        nop                             $scaled>=b
        activate  p, s, fn=exp, scale=SCALE, bias=m, reduce=reset_reduce  $maxed>=b+1
        act_read_acc sum                $expd++
%assign b b + 1
%endrep
        halt
