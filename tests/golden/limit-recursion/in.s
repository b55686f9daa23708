%macro  a 0
        a2
%endm
%macro  a2 0
        b
%endm
%macro  b 0
%rep 1
%push x
        c
%endrep
%endm
%define c d
%define d c
section vector
        a
        halt
