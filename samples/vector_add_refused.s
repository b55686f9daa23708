; What the machine refuses: 160 rows do not fit in 128 partitions.
        target  trn2

a       tensor  float32[160, 16], input
b       tensor  float32[160, 16], input
c       tensor  float32[160, 16], output

ta      tile    sbuf float32[160, 16]
tb      tile    sbuf float32[160, 16]
