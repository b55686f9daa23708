extern T tile sbuf float32[8, 8]
extern dome sem
extern p queue dge=none
extern done tensor float32[8, 8]
section vector
extern  wrok
        tensor_copy T, T  $dome>=1
        call    r1, wrok
        halt
section sync
extern  work
        jmp     work
