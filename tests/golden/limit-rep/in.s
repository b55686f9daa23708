section vector
%rep 100000000
        nop
%endrep
        halt
