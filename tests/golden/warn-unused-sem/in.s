target trn2
a sem
b sem
section sync
        halt $a++
