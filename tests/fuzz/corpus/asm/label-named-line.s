target trn2
section sync
x:      nop
.__LINE__:     nop
z:      jmp z
