%macro nop 0
 a
 nop
%endmacro
nop
