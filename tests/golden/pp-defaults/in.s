%macro m 1-3 d, {e, f}
 a %1,%2,%3 %0
%endmacro
m x
m x,y
m x,y,z
