section vector
%rep 70
        if      r0 < 5
%endrep
        halt
