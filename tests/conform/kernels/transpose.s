; a^T three ways, of 64 x 96: by the tensor engine and an identity that gpsimd makes, by the vector
; engine in blocks of 32 x 32, and by DMA.
in_a    tensor  float32[64, 96], input
out_pe  tensor  float32[96, 64], output
out_dve tensor  float32[96, 64], output
out_dma tensor  float32[96, 64], output
a       tile    sbuf float32[64, 96]
one     tile    sbuf float32[64, 64]
i       tile    sbuf float32[64, 64]
p       tile    psum float32[96, 64]
tp      tile    sbuf float32[96, 64]
tv      tile    sbuf float32[96, 64]
td      tile    sbuf float32[96, 64]
full    sem
unit    sem
turned  sem
by_pe   sem
by_dve  sem
by_dma  sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  a, in_a, queue=qin    $full
%if __GEN__ >= 3
        dma_transpose td, in_a, queue=qin  $by_dma
%else
        dma_copy  td, in_a.ap([[1, 96], [96, 64]]), queue=qin  $by_dma
%endif
        dma_copy  out_dma, td, queue=qout  $by_dma>=16
        dma_copy  out_dve, tv, queue=qout  $by_dve>=6
        dma_copy  out_pe, tp, queue=qout   $by_pe>=1
        halt

section gpsimd                          ; ones where partition - column = 0
        memset    one, 1.0
        affine_select i, one, 0.0, pattern=[[-1, 64]], multiplier=1, cmp=is_equal  $unit++
        halt

section tensor
        ldweights a, transpose=true     $full>=16
        matmul    p, i, transpose=true  $unit>=1 $turned++
        halt

section vector
        nop       $full>=16
%assign r 0
%rep 2
%assign c 0
%rep 3
        transpose32 tv[32 * c:32 * c + 32, 32 * r:32 * r + 32], \
                  a[32 * r:32 * r + 32, 32 * c:32 * c + 32]  $by_dve++
%assign c c + 1
%endrep
%assign r r + 1
%endrep
        tensor_copy tp, p               $turned>=1 $by_pe++
        halt
