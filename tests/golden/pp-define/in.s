%define A 1+B
%define B 2
x A, B, AB
