target trn2
extern foo
align 4
global x
tile sbuf float32[4, 4]
endloop
section sync
        align 0
        global .x
        loop r0, 0, 4
        halt
