extern  a tensor float32[8], input
extern  b tile sbuf float32[8, 8], at=0
extern  c tile sbuf float32[8, 8], overlay=g
extern  d sem 5
extern  e equ 5
x       tile    sbuf float32[8, 8]
y       equ     sizeof(x) + addr(x)
z       sem
w       equ     z + 1
f       tile    sbuf float32[8, 8], at=64
g       equ     addr(f) + f.part + x.part
extern  h
section vector
l:      nop     $S[3]++
extern  l
extern  .l
global  k, g
extern  m
global  m
global
        halt
