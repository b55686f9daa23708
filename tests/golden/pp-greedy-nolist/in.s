%macro m 1+.nolist
 a %1
%endmacro
%macro n 1.nolist
 b %1
%endmacro
m 1,2
n 3
