; COUNT activates of exp over [P, N], in place when CHAIN: each then waits for the one before.
        target  TARGET
x       tile    sbuf TYPE[P, N]
y       tile    sbuf TYPE[P, N]
section scalar
%rep COUNT
%ifdef CHAIN
        activate  x, x, fn=exp
%else
        activate  y, x, fn=exp
%endif
%endrep
        halt
