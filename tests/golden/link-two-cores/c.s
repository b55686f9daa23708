section sync core=1
next:   jmp     next
global  next
