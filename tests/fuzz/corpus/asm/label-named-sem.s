target trn2
section sync
top:    nop
.a:     jmp .a
sem:   nop
.a:     jmp .a
section vector
.a:     nop
top:    jmp .b
.b:     jmp .b
section sync
x:      jmp top.a
