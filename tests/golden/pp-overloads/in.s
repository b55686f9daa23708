%macro m 1
 a %1
%endmacro
%macro m 2
 b %1 %2
%endmacro
m 1
m 1, 2
