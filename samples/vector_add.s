; c = a + b for N elements, streamed in chunks of 128 x FREE_DIM through two sets of tiles: while
; vector adds one, the DMA engines fill the other. Every buffer has its own semaphores, because
; sixteen rings finish in any order: a count shared by two buffers would not say which is full.
;   -D FREE_DIM=n   elements of a partition in a chunk
;   -D N=n          elements in all, a multiple of two chunks, or exactly one
        target  trn2
%ifndef FREE_DIM
%define FREE_DIM 512
%endif
%ifndef N
%define N 1048576
%endif
%assign CHUNK 128 * FREE_DIM
%assign CHUNKS (N) / CHUNK
%if CHUNKS == 1
%assign BUFS 1
%else
%assign BUFS 2
%endif
%if CHUNKS * CHUNK != N || CHUNKS % BUFS != 0
%error N must be one chunk of 128 * FREE_DIM elements, or an even number of them
%endif

a       tensor  float32[N], input
b       tensor  float32[N], input
c       tensor  float32[N], output

%assign i 0
%rep BUFS
ta%+i   tile    sbuf float32[128, FREE_DIM]
tb%+i   tile    sbuf float32[128, FREE_DIM]
tc%+i   tile    sbuf float32[128, FREE_DIM]
full%+i   sem                           ; + 32 a chunk: two loads of sixteen rings
added%+i  sem                           ; + 1 a chunk
stored%+i sem                           ; + 16 a chunk
%assign i i + 1
%endrep
qload   queue   rings=16, dge=hwdge
qstore  queue   rings=16, dge=hwdge

section sync
        mov       r0, 0                 ; first element of the chunk
        mov       r1, 0                 ; times each buffer must have been added before
.next:
%assign i 0
%rep BUFS
        dma_copy  ta%+i, a[r0:+CHUNK], queue=qload  $added%+i>=r1  $full%+i
        dma_copy  tb%+i, b[r0:+CHUNK], queue=qload                 $full%+i
        add       r0, r0, CHUNK
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, N, .next
        halt

section vector
        mov       r0, 32                ; loads that must be in each buffer
        mov       r1, 0                 ; stores that must have left it
.next:
%assign i 0
%rep BUFS
        nop                                     $stored%+i>=r1
        tensor_tensor tc%+i, ta%+i, tb%+i, op=add  $full%+i>=r0  $added%+i++
%assign i i + 1
%endrep
        add       r0, r0, 32
        add       r1, r1, 16
        ble       r0, 32 * (CHUNKS / BUFS), .next
        halt

section scalar
        mov       r0, 0
        mov       r1, 1                 ; times each buffer must have been added
.next:
%assign i 0
%rep BUFS
        dma_copy  c[r0:+CHUNK], tc%+i, queue=qstore  $added%+i>=r1  $stored%+i
        add       r0, r0, CHUNK
%assign i i + 1
%endrep
        add       r1, r1, 1
        blt       r0, N, .next
        halt
