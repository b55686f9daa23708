%define a 1
%xdefine b a
%define c a
%define a 2
b c
