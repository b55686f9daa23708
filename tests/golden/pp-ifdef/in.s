%define A
%ifdef A
a
%endif
%ifdef B
b
%elifndef B
c
%endif
%ifdef B A
d
%endif
