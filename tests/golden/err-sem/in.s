target trn2
a sem 0
b sem
c sem 1
d sem 256
e sem x
section sync
        halt $a++
