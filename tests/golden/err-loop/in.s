target trn2
section sync
        loop r0, 0, 4, 0
        endloop
        loop r0, 4, 0
        endloop
        loop 0, 4
        endloop
        loop r0, 0, 4
section vector
        endloop
        halt
section sync
        halt
