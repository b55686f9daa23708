%macro m 1
%endmacro
%macro m 3-*
%endmacro
m 1, 2
