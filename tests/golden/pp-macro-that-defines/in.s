%macro d 2
%macro %1 1
 a %2, %1
%endmacro
%endmacro
d k, v
k w
