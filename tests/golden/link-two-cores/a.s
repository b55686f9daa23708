s       sem     core=1
global  s
section sync
        nop     $s++
        halt
