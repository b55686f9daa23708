a       tensor  uint8[31], const = incbin "w.bin"
b       tensor  uint8[4], const = incbin "w.bin", 33
c       tensor  uint8[4], const = incbin "w.bin", 0, 33
d       tensor  uint8[4], const = incbin "w.bin", 0, 5
e       tensor  uint8[4], const = incbin w
f       tensor  uint8[4], const
        incbin  "w.bin", 0, 2
        incbin  "w.bin", 0, 3
