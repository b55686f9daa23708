%define a 1
a
%undef a
a
%undef a
