target trn2
A equ
B equ A + 1
C equ 1 / 0
D equ 4 5
E equ s
s sem
F equ 1 +* 2
section sync
        mov r0, B
        halt
