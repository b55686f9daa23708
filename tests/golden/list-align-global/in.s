target trn2
section sync
        nop
        align 4
        global main
main:   halt
