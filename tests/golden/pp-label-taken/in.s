%macro m 0
 b
%00: a
%endmacro
x: m
m
