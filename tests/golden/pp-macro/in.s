%macro m 2
 a %1, %2
 b %2
%endmacro
m x, [y, z]
