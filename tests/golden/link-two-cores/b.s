z       sem
y       sem     core=1
extern s sem core=1
section sync core=1
extern  next
        nop     $s>=1 $y++
        jmp     next
next2:  halt
section vector core=1
        nop     $z++
        halt
