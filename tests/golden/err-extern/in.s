a       tensor  float32[8], input
extern  a
extern  b tensor float32[8]
section vector
extern  c
        jmp     c
