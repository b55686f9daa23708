; What a kernel that normalises rows of N elements and quantizes them does on scalar and vector:
; SQUARE adds up their squares, SCALE multiplies them by a column and what is in PSUM, COUNT times,
; MAX finds the greatest of each, else a column makes them 8-bit floats.
        target  TARGET
x       tile    sbuf bfloat16[128, N]
column  tile    sbuf float32[128, 1]
%ifdef SQUARE
y       tile    sbuf bfloat16[128, N]
section scalar
        activate  y, x, fn=square, reduce=reset_reduce
%elifdef SCALE
y       tile    psum float32[128, N]
%assign i 0
%rep COUNT
z%+i    tile    sbuf bfloat16[128, N]
%assign i i + 1
%endrep
section vector
%assign i 0
%rep COUNT
        scalar_tensor_tensor  z%+i, x, y, op0=mult, imm0=column, op1=mult
%assign i i + 1
%endrep
%elifdef MAX
section vector
        tensor_reduce  column, x, op=max
%else
y       tile    sbuf float8_e4m3[128, N]
section vector
        tensor_scalar  y, x, op0=mult, imm0=column
%endif
        halt
