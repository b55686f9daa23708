s       sem
global  s
section sync
        nop     $s++
        halt
