; The 24 largest of each row of 128 x 200 and where they are, eight a turn: find them, note their
; places, put the least float in their place. Equal values: the lower place first.
in_x    tensor  float32[128, 200], input
out_v   tensor  float32[128, 24], output
out_i   tensor  uint32[128, 24], output
x       tile    sbuf float32[128, 200]
v       tile    sbuf float32[128, 24]
i       tile    sbuf uint32[128, 24]
full    sem
values  sem
places  sem
qin     queue   dge=none
qout    queue   dge=none

section sync
        dma_copy  x, in_x, queue=qin    $full
        dma_copy  out_v, v, queue=qout  $values>=3
        dma_copy  out_i, i, queue=qout  $places>=3
        halt

section vector
        nop       $full>=16
%assign k 0
%rep 3
        max8      v[:, 8 * k:8 * k + 8], x  $values++
        match_value_load v[:, 8 * k:8 * k + 8]
        find_index8 i[:, 8 * k:8 * k + 8], x  $places++
        match_replace8 x, x, imm=-0x1.fffffep+127
%assign k k + 1
%endrep
        halt
