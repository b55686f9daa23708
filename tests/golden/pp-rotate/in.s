%macro m 3
%rotate 1
 a %1%2%3
%rotate -2
 a %1 %2 %3
%endmacro
m x,y,z
