target trn2
section sync
        loop r0, 0, 4
          loop r1, 100, 0, -10
            add r2, r2, r1
          endloop
        endloop
        loop r3, r4, r5, 2
          nop
        endloop
        halt
