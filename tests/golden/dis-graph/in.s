s       sem
t       sem
section vector
        mov     r0, 5
top:    nop     $s>=1 $t++
        if      r0 < 3
        call    r1, fn
        endif
        blt     r0, 9, top
        halt
fn:     device_print "a \"quoted\" \\ name", int32@sbuf[0,1,0][][]
        ret     r1
%rep 20
        nop
%endrep
        halt
section gpsimd
        nop     $t>=1 $s=4
        halt
