; Mamba's scan over 4096 channels x 512, 16 states, states inside channels: for each 128 channels
;   du = delta * u;  for each state: s = scan(exp(delta * A), du * B), acc += s * C
; B and C are rows, broadcast over the partitions by the tensor engine. Vector's program runs one
; state ahead, so that it does not wait for its own results. With AGAIN it makes du for every state;
; scalar copies the rows B of the first MOVED states to SBUF, from where vector takes them; with
; CARRY each scan begins where the one of that state ended, in a column that vector keeps.
        target  trn1
%define L 512
%define STATES 16
%ifndef TILES
%define TILES 32
%endif
%ifndef MOVED
%define MOVED 0
%endif
delta   tensor  float32[TILES*128, L]
u       tensor  float32[TILES*128, L]
y       tensor  float32[TILES*128, L]
rb      tile    sbuf float32[1, STATES*L]
rc      tile    sbuf float32[1, STATES*L]
ones    tile    sbuf float32[1, 128]
last    tile    sbuf float32[128, STATES]
a       tile    sbuf float32[128, STATES]
%assign i 0
%rep 2                                         ; by tile of channels; by state
td%+i   tile    sbuf float32[128, L]
tu%+i   tile    sbuf float32[128, L]
acc%+i  tile    sbuf float32[128, L]
db%+i   tile    sbuf float32[128, L]
st%+i   tile    sbuf float32[128, L]
sc%+i   tile    sbuf float32[128, L]
full%+i   sem                                  ; + 32 a tile: td and tu
idle%+i   sem                                  ; + 1 a tile: they are free
summed%+i sem
stored%+i sem
%assign i i + 1
%endrep
%assign i 0
%rep 4                                         ; by state
da%+i   tile    sbuf float32[128, L]
pb%+i   tile    psum float32[128, L]
pc%+i   tile    psum float32[128, L]
sb%+i   tile    sbuf float32[128, L]
ready%+i  sem                                  ; + 1 a state: da, and sb where it is used
spread%+i sem                                  ; + 1 a state: pb and pc
free%+i   sem                                  ; + 1 a state: da, pb, pc are free
%assign i i + 1
%endrep
du0     tile    sbuf float32[128, L]
du1     tile    sbuf float32[128, L]
q       queue   rings=16, dge=none
qy      queue   rings=16, dge=none
%assign t 0
%rep TILES
%assign i t % 2
        dma     q, td%+i, delta[t*128:t*128+128, :]
        dma     q, tu%+i, u[t*128:t*128+128, :]
        dma     qy, y[t*128:t*128+128, :], acc%+i
%assign t t + 1
%endrep

section sync                                   ; loads
        mov       r0, 0
.next:
%assign i 0
%rep 2
        dma_trigger q, 2  $idle%+i>=r0  $full%+i
%assign i i + 1
%endrep
        add       r0, r0, 1
        blt       r0, TILES/2, .next
        halt

section gpsimd                                 ; stores
        mov       r0, 0
        mov       r1, 0
.next:
        add       r0, r0, 1
        add       r1, r1, 16
%assign i 0
%rep 2
        dma_trigger qy, 1  $summed%+i>=r0  $stored%+i
%assign i i + 1
%endrep
        blt       r0, TILES/2, .next
        nop       $stored1>=r1
        halt

section tensor
        mov       r0, 0
        mov       r1, 0
        ldweights ones
.next:
%assign n 0
%rep STATES
%assign i n % 4
        matmul    pb%+i, rb[:, n*L:n*L+L], acc=write  $free%+i>=r1
        matmul    pc%+i, rc[:, n*L:n*L+L], acc=write  $spread%+i++
%if i == 3
        add       r1, r1, 1
%endif
%assign n n + 1
%endrep
        add       r0, r0, 1
        blt       r0, TILES, .next
        halt

section scalar
        mov       r0, 0
        mov       r1, 0
        mov       r2, 32
.next:
%assign t 0
%rep 2
        nop       $full%+t>=r2
%assign n 0
%rep STATES
%assign i n % 4
%if n < MOVED
        add       r3, r1, 1
        activate  da%+i, td%+t, fn=exp, scale=a[:, n:n+1]  $free%+i>=r1
        activate  sb%+i, pb%+i, fn=copy  $spread%+i>=r3  $ready%+i++
%else
        activate  da%+i, td%+t, fn=exp, scale=a[:, n:n+1]  $free%+i>=r1  $ready%+i++
%endif
%if i == 3
        add       r1, r1, 1
%endif
%assign n n + 1
%endrep
        drain
        nop       $idle%+t++
%assign t t + 1
%endrep
        add       r0, r0, 2
        add       r2, r2, 32
        blt       r0, TILES, .next
        halt

section vector                                 ; r1: uses of a state's buffers
        mov       r0, 0
        mov       r1, 1
        mov       r2, 32
        mov       r3, 0
.next:
%assign t 0
%rep 2
        memset    acc%+t, 0.0   $stored%+t>=r3
        tensor_tensor du0, td%+t, tu%+t, op=mult  $full%+t>=r2
%if MOVED > 0
        nop       $ready0>=r1
        tensor_tensor db0, du0, sb0, op=mult      $spread0>=r1
%else
        tensor_tensor db0, du0, pb0, op=mult      $spread0>=r1
%endif
%assign n 0
%rep STATES
%assign i n % 4
%assign j n % 2
%assign o 1 - j
%if n < STATES - 1
%assign x (n + 1) % 4
        add       r4, r1, x == 0
%ifdef AGAIN
        tensor_tensor du%+o, td%+t, tu%+t, op=mult
        tensor_tensor_scan st%+j, da%+i, db%+j, 0.0, op0=mult, op1=add  $ready%+i>=r1
%if n + 1 < MOVED
        nop       $ready%+x>=r4
        tensor_tensor db%+o, du%+o, sb%+x, op=mult  $spread%+x>=r4
%else
        tensor_tensor db%+o, du%+o, pb%+x, op=mult  $spread%+x>=r4
%endif
%else
        tensor_tensor db%+o, du0, pb%+x, op=mult  $spread%+x>=r4
%ifdef CARRY
        tensor_tensor_scan st%+j, da%+i, db%+j, last[:, n:n+1], op0=mult, op1=add  $ready%+i>=r1
%else
        tensor_tensor_scan st%+j, da%+i, db%+j, 0.0, op0=mult, op1=add  $ready%+i>=r1
%endif
%endif
%elifdef CARRY
        tensor_tensor_scan st%+j, da%+i, db%+j, last[:, n:n+1], op0=mult, op1=add  $ready%+i>=r1
%else
        tensor_tensor_scan st%+j, da%+i, db%+j, 0.0, op0=mult, op1=add  $ready%+i>=r1
%endif
%if n > 0
        tensor_tensor acc%+t, acc%+t, sc%+o, op=add
%endif
        tensor_tensor sc%+j, st%+j, pc%+i, op=mult  $free%+i++
%ifdef CARRY
        tensor_copy last[:, n:n+1], st%+j[:, L-1:L]
%endif
%if i == 3
        add       r1, r1, 1
%endif
%assign n n + 1
%endrep
        tensor_tensor acc%+t, acc%+t, sc%+j, op=add  $summed%+t++
%assign t t + 1
%endrep
        add       r0, r0, 2
        add       r2, r2, 32
        add       r3, r3, 16
        blt       r0, TILES, .next
        halt
