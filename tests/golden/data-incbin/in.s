a       tensor  uint8[32], const = incbin "w.bin"
b       tensor  uint8[4], const = incbin "w.bin", 8, 4
c       tensor  uint32[4], const
        incbin  "w.bin", 24
        incbin  "w.bin", 0, 4
        uint32  0xdeadbeef
