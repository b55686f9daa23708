target trn2
a tile sbuf float32[128, 16384]
b tile sbuf float32[128, 32768]
c tile sbuf float32[64, 16384], part=64
d tile sbuf float32[128, 16384]
section sync
        halt
