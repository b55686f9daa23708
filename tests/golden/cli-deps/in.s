f tensor uint8[5], const = incbin "five.bin"
section sync
 halt
