; y = tanh(x / 2) in CHUNKS chunks of 128 rows of COLS: load on sync, compute on scalar, store on
; gpsimd, over BUFS sets of tiles. With one set the three take turns; with more they overlap.
;   -D BUFS=n  -D COLS=n  -D CHUNKS=n
        target  trn2
%ifndef BUFS
%define BUFS 2
%endif
%ifndef COLS
%define COLS 1024
%endif
%ifndef CHUNKS
%define CHUNKS 24
%endif

x       tensor  float32[CHUNKS * 128, COLS], input
y       tensor  float32[CHUNKS * 128, COLS], output
%assign i 0
%rep BUFS
tx%+i   tile    sbuf float32[128, COLS]
ty%+i   tile    sbuf float32[128, COLS]
full%+i   sem                           ; + 16 a chunk
done%+i   sem                           ; + 1: tx is free, ty is full
stored%+i sem                           ; + 16: ty is free
%assign i i + 1
%endrep
qload   queue   rings=16, dge=hwdge
qstore  queue   rings=16, dge=swdge

; `use`: how often the buffer has been used before.
section sync
%assign n 0
%rep CHUNKS
%assign i n % BUFS
%assign use n / BUFS
        dma_copy  tx%+i, x[n*128:n*128+128], queue=qload  $done%+i>=use  $full%+i
%assign n n + 1
%endrep
        halt

section scalar
%assign n 0
%rep CHUNKS
%assign i n % BUFS
%assign use n / BUFS
        nop                                        $stored%+i>=use*16
        activate  ty%+i, tx%+i, fn=tanh, scale=0.5  $full%+i>=use*16+16  $done%+i++
%assign n n + 1
%endrep
        halt

section gpsimd
%assign n 0
%rep CHUNKS
%assign i n % BUFS
%assign use n / BUFS
        dma_copy  y[n*128:n*128+128], ty%+i, queue=qstore  $done%+i>=use+1  $stored%+i
%assign n n + 1
%endrep
        halt
