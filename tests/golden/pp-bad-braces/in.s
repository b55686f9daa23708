%macro m 2
%endmacro
m {x} y, z
m {x, y
