%macro m 1-2
%endmacro
%macro m 2
%endmacro
