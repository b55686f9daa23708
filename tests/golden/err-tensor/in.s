target trn2
a tensor float23[4]
b tensor float32
c tensor float32[0]
d tensor float32[4], inptu
e tensor float32[1<<31, 1<<31]
f tensor float32[1,1,1,1,1,1,1,1,1]
g tensor float32[2, 2], const
h tensor float32[2, 2], const = [1, 2, 3]
i tensor int8[2], const = [1, 200]
j tensor int8[2], const = [1, 2, 3]
k tensor int8[2], const = [1.5, 2]
l tensor uint8[2], const = incbin "none.bin"
m tensor uint8[2], const = incbin "five.bin"
n tensor uint8[2] input
section sync
        mov r0, sizeof(a)
        halt
