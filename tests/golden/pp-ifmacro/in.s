%macro m 1-2
%endmacro
%ifmacro m
a
%endif
%ifmacro m 2
b
%endif
%ifmacro m 3-*
c
%endif
%ifnmacro n
d
%endif
