%if 0
%if 1
a
%else
b
%endif
%else
%ifn 0
c
%endif
%endif
