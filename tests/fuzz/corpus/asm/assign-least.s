%assign n 0x7fffffffffffffff + 1
section sync
mov r0, 1-n
halt
