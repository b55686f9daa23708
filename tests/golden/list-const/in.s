target trn2
w  tensor float32[2, 2], const = [1, -2.5, inf, 0x1p-3]
h  tensor bfloat16[3], const = {0x3f80, 0x7fc0, 0}
i  tensor int8[4], const = [-128, 127, 0, 'z']
f  tensor uint8[5], const = incbin "five.bin"
section sync
        halt
