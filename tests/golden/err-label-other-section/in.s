target trn2
section vector
here:   halt
section sync
        jmp here
