%if 1
a
%else
b
%endif
%if 0
c
%elif 2>1
d
%elif 1
e
%else
f
%endif
