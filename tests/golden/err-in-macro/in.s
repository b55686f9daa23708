target trn2
a tile sbuf float32[128, 8]
%macro clear 1
        memset %1, zero
%endmacro
%macro both 2
        clear %1
        clear %2
%endmacro
section vector
        both a, q
        halt
