target trn2
a sem
section sync
        halt
