; c = a + b for N elements, seen as rows of FREE_DIM: a tile is at most 128 rows, and a row is what
; one partition holds. Descriptors are made by gpsimd, up to four tiles are in flight, and every
; tile is written out by the preprocessor, so any number of them will do.
;   -D FREE_DIM=n   elements of a row; must divide N
        target  trn2
%ifndef FREE_DIM
%define FREE_DIM 200
%endif
%ifndef N
%define N 25600
%endif
%assign ROWS (N) / (FREE_DIM)
%if ROWS * (FREE_DIM) != N
%error FREE_DIM must divide N
%endif
%assign PART min(ROWS, 128)
%assign TILES ROWS / PART
%if TILES * PART != ROWS
%error N / FREE_DIM must be at most 128 or a multiple of 128
%endif
%assign DEPTH min(TILES, 4)

a       tensor  float32[ROWS, FREE_DIM], input
b       tensor  float32[ROWS, FREE_DIM], input
c       tensor  float32[ROWS, FREE_DIM], output
%assign i 0
%rep DEPTH
ta%+i   tile    sbuf float32[PART, FREE_DIM]
tb%+i   tile    sbuf float32[PART, FREE_DIM]
tc%+i   tile    sbuf float32[PART, FREE_DIM]
full%+i   sem                           ; + 32 a tile
added%+i  sem                           ; + 1
stored%+i sem                           ; + 16
%assign i i + 1
%endrep
q       queue   rings=16, dge=swdge

; The store of a tile is made DEPTH tiles after its load, when the sum is likely to be there.
section gpsimd
%assign t 0
%rep TILES + DEPTH
%assign i t % DEPTH
%assign use t / DEPTH
%if t >= DEPTH
%assign s t - DEPTH
        dma_copy  c[s*PART:s*PART+PART], tc%+i, queue=q  $added%+i>=use  $stored%+i
%endif
%if t < TILES
        dma_copy  ta%+i, a[t*PART:t*PART+PART], queue=q  $full%+i
        dma_copy  tb%+i, b[t*PART:t*PART+PART], queue=q  $full%+i
%endif
%assign t t + 1
%endrep
        halt

section vector
%assign t 0
%rep TILES
%assign i t % DEPTH
%assign use t / DEPTH
        nop                                             $stored%+i>=use*16
        tensor_tensor tc%+i, ta%+i, tb%+i, op=add  $full%+i>=use*32+32  $added%+i++
%assign t t + 1
%endrep
        halt
