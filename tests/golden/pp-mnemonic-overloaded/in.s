%macro add 2
 add %1, %1, %2
%endmacro
add r0, 5
add r1, r2, 3
