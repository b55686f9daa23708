t       sem
in      tensor  float32[8], input
global  t
section vector
work:   nop     $t++
        halt
global  work
section sync
work:   nop     $t>=1
        halt
global  work
