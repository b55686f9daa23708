%macro m 2+
 a %1 | %2 %0
%endmacro
m x, y, z, w
m x, y
