; COUNT matmuls of N columns with the same weights of COLS columns, or with TRANSPOSE transposes.
; An fp32 matmul is two passes; with ONEZERO it is one, and is what a profile shows as one
; instruction. With RELOAD each matmul has weights of its own, with FAR 144 bytes apart.
        target  TARGET
%ifndef COLS
%define COLS 128
%endif
%ifdef FAR
ww      tile    sbuf TYPE[128, 36 * COLS]
%define WEIGHTS ww[:, ::36]
%else
w       tile    sbuf TYPE[128, COLS]
%define WEIGHTS w
%endif
x       tile    sbuf TYPE[128, N]
y       tile    psum float32[COLS, N]
section tensor
        ldweights  WEIGHTS
%rep COUNT
%ifdef RELOAD
        ldweights  WEIGHTS
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
