%iftoken x
a
%endif
%iftoken x y
b
%endif
%iftoken -1
c
%endif
%ifntoken
d
%endif
