%macro m 1
 a
%endmacro
%unmacro m 2
m 1
%unmacro m 1
m 1
