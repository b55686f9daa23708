%define a "x"
%strcat s a, "y", "\""
s
