section tensor
.x: nop
 jmp .x
