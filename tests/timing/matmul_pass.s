; COUNT matmuls of N columns with the same weights. An fp32 matmul is two passes; with ONEZERO it is
; one, and is what a profile shows as one instruction.
        target  TARGET
w       tile    sbuf TYPE[128, 128]
x       tile    sbuf TYPE[128, N]
y       tile    psum float32[128, N]
section tensor
        ldweights  w
%rep COUNT
%ifdef ONEZERO
        matmul  y, x, acc=write, onezero=true
%else
        matmul  y, x, acc=write
%endif
%endrep
        halt
