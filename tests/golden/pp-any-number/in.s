%macro m 1-*
%rep %0
 a %1
%rotate 1
%endrep
%endmacro
m x, y, z
