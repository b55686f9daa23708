target trn2
section sync
x:      nop
.y:     nop
z:      jmp z
