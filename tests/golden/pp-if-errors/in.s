%else
%endif
%elif 1
%if
%endif
%if 1 1
a
%else
b
%endif
%if 0
%else
%else
%endif
%ifdef 1
%endif
%if 1
