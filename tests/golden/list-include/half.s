HALF equ 64
section vector
        nop
        halt
