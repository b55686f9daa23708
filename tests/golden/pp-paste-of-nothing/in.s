%macro m 2
a %1 %+ x%2 b x %+ %2 c
%endmacro
m ,
m p,q
