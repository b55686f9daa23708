target trn2
section sync
        mov r0, N * 2
%ifdef M
        mov r0, M
%endif
        halt
