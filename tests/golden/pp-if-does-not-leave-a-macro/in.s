%macro m 0
%endif
%if 1
%endmacro
%if 1
m
a
%endif
