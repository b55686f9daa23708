target trn2
a  tensor float32[4]
a  sem
s  sem
s  sem
K  equ 3
K  equ 4
r5 sem
float32 tile sbuf float32[4, 4]
.x sem
section sync
        halt $s++
