%macro m 3-1
%endmacro
%macro m x
%endmacro
%macro m 0-1 a, b
%endmacro
