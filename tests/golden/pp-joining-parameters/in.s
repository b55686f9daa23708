%macro m 2
k%1: a%1_b %1%2 x%{1}1 %1 %2 %1.s %1 .t
%endmacro
m 1, q
