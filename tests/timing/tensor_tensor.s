; COUNT additions over [P, N] fp32, the second operand in memory SECOND (sbuf or psum), each to
; a place of its own.
        target  TARGET
%ifndef P
%define P 128
%endif
x       tile    sbuf float32[P, N]
y       tile    SECOND float32[P, N]
%assign i 0
%rep COUNT
z%+i    tile    sbuf float32[P, N]
%assign i i + 1
%endrep
section vector
%assign i 0
%rep COUNT
        tensor_tensor  z%+i, x, y, op=add
%assign i i + 1
%endrep
        halt
