%macro i 0
%error e
%endmacro
%macro o 0
 i
%endmacro

o
