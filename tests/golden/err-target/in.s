target trn4
target trn2
a tile sbuf float32[4, 4]
target trn3
target trn2
section sync
        halt
