; y = each n x n block of x transposed, SBUF to SBUF, in one of three ways:
;   WAY=tensor  the tensor engine multiplies by an identity into PSUM, vector copies out
;   WAY=vector  the vector engine turns blocks of 32 x 32, and writes each to its place
;   WAY=dma     the DMA engines do it
;   -D WAY=name  -D TYPE=type  -D SIZE=32|64|128  -D COUNT=blocks, at most 8
        target  trn2
%ifndef WAY
%define WAY tensor
%endif
%ifndef TYPE
%define TYPE bfloat16
%endif
%ifndef SIZE
%define SIZE 128
%endif
%ifndef COUNT
%define COUNT 1
%endif

x       tensor  TYPE[SIZE, COUNT * SIZE], input
y       tensor  TYPE[SIZE, COUNT * SIZE], output
tx      tile    sbuf TYPE[SIZE, COUNT * SIZE]
ty      tile    sbuf TYPE[SIZE, COUNT * SIZE]
full    sem                             ; + 16: x is loaded
ready   sem                             ; + 1: what the way needs besides is there too
turned  sem
; A static queue starts its transfers in the order of the source, so each has its own.
qin     queue   rings=16, dge=none
qturn   queue   rings=16, dge=none
qout    queue   rings=16, dge=none

%ifidni WAY, tensor
one     tile    sbuf TYPE[SIZE, SIZE]
id      tile    sbuf TYPE[SIZE, SIZE]
%assign k 0
%rep COUNT
p%+k    tile    psum TYPE[SIZE, SIZE]
%assign k k + 1
%endrep
product sem
%assign ALL COUNT
section gpsimd                          ; ones where partition - column = 0
        memset    one, 1.0
        affine_select id, one, 0.0, pattern=[[-1, SIZE]], multiplier=1, cmp=is_equal
        drain                           ; an update by nop says nothing of the data path
        nop       $full>=16 $ready++
        halt
section tensor
        nop       $ready>=1
%assign k 0
%rep COUNT
        nc_transpose p%+k, tx[:, k*SIZE:k*SIZE+SIZE], identity=id  $product++
%assign k k + 1
%endrep
        halt
section vector
%assign k 0
%rep COUNT
        tensor_copy ty[:, k*SIZE:k*SIZE+SIZE], p%+k  $product>=k+1 $turned++
%assign k k + 1
%endrep
        halt

%elifidni WAY, vector
%assign N SIZE / 32
%assign ALL COUNT * N * N
section vector
        nop       $full>=16 $ready++
%assign k 0
%rep COUNT
%assign r 0
%rep N
%assign c 0
%rep N
        transpose32 ty[32*c:32*c+32, k*SIZE+32*r:k*SIZE+32*r+32], \
                  tx[32*r:32*r+32, k*SIZE+32*c:k*SIZE+32*c+32]  $turned++
%assign c c + 1
%endrep
%assign r r + 1
%endrep
%assign k k + 1
%endrep
        halt

%elifidni WAY, dma
%assign ALL COUNT * 16
section vector
        nop       $full>=16 $ready++
%assign k 0
%rep COUNT
        dma_transpose ty[:, k*SIZE:k*SIZE+SIZE], tx[:, k*SIZE:k*SIZE+SIZE], queue=qturn  $turned
%assign k k + 1
%endrep
        halt
%else
%error WAY is tensor, vector or dma
%endif

section sync
        dma_copy  tx, x, queue=qin      $full
        dma_copy  y, ty, queue=qout      $turned>=ALL
        halt
