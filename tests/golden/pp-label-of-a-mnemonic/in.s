%macro m 0
 a
%endmacro
 jmp m
