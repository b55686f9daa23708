; COUNT matmuls of N columns with the same weights of COLS columns, or with TRANSPOSE transposes.
; An fp32 matmul is two passes; with ONEZERO it is one, and is what a profile shows as one
; instruction. With RELOAD each matmul has weights of its own.
        target  TARGET
%ifndef COLS
%define COLS 128
%endif
w       tile    sbuf TYPE[128, COLS]
x       tile    sbuf TYPE[128, N]
y       tile    psum float32[COLS, N]
section tensor
        ldweights  w
%rep COUNT
%ifdef RELOAD
        ldweights  w
%endif
%ifdef TRANSPOSE
        matmul  y, x, acc=write, transpose=true
%elifdef ONEZERO
        matmul  y, x, acc=write, onezero=true
%else
        matmul  y, x, acc=write
%endif
%endrep
        halt
