%macro  a 0
        nop
        nop
%endm
%macro  b 0
%rep 1000
        a
%endrep
%endm
%macro  c 0
%rep 1000
        b
%endrep
%endm
section vector
%rep 1000
        c
%endrep
        halt
