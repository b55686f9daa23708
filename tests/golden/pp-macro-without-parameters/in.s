%macro m
n%0
%endm
m
