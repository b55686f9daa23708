target trn2
%include "half.s"
section sync
        mov r0, HALF
        halt
