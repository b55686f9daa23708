%define E
%ifempty E
a
%endif
%ifempty x
b
%endif
%ifempty
c
%endif
