target trn2
a tensor float32[3, 5]
s sem
q queue
section sync
        mov r0, a
        mov r0, a.size
        mov r0, a.shape
        mov r0, a.shape[2]
        mov r0, s.x
        mov r0, q
        halt
