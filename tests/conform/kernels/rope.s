; Rotary embedding of 128 tokens, heads of 64 in halves: (a, b) becomes (a c - b s, b c + a s).
; Vector makes the first half and gpsimd the second, in loops over the heads.
%define HEADS 4
in_x    tensor  float32[128, HEADS * 64], input
in_c    tensor  float32[128, 32], input
in_s    tensor  float32[128, 32], input
out_y   tensor  float32[128, HEADS * 64], output
x       tile    sbuf float32[128, HEADS * 64]
c       tile    sbuf float32[128, 32]
s       tile    sbuf float32[128, 32]
y       tile    sbuf float32[128, HEADS * 64]
t       tile    sbuf float32[128, 32]
u       tile    sbuf float32[128, 32]
full    sem
angles  sem
first   sem
second  sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full
        dma_copy  c, in_c, queue=qin    $angles
        dma_copy  s, in_s, queue=qin    $angles
        nop       $first>=HEADS
        dma_copy  out_y, y, queue=qout  $second>=HEADS
        halt

section vector
        nop       $full>=16
        nop       $angles>=32
        loop      r0, 0, HEADS * 64, 64
        tensor_tensor y[:, r0:+32], x[:, r0:+32], c, op=mult
        add       r1, r0, 32
        tensor_tensor t, x[:, r1:+32], s, op=mult
        tensor_tensor y[:, r0:+32], y[:, r0:+32], t, op=subtract  $first++
        endloop
        halt

section gpsimd
        nop       $full>=16
        nop       $angles>=32
        loop      r0, 0, HEADS * 64, 64
        add       r1, r0, 32
        tensor_tensor y[:, r1:+32], x[:, r1:+32], c, op=mult
        tensor_tensor u, x[:, r0:+32], s, op=mult
        tensor_tensor y[:, r1:+32], y[:, r1:+32], u, op=add  $second++
        endloop
        halt
