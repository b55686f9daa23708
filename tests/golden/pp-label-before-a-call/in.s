%macro m 1
 a %1
%endmacro
x: m 1
y m 2
.z: m 3
