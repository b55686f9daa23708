; findings in the order of the code, with the assembler's own of the same kind left out
        target  trn2
u       tile    sbuf float32[128, 64]
v       tile    sbuf float32[128, 64]
s       sem
t       sem
section vector
        tensor_copy v, u                $s>=3  $t++
        halt
        nop
        halt
section sync
        nop                             $s++
        nop                             $s++
        halt
