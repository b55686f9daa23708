%ifnum 12
a
%endif
%ifnum -1.5
b
%endif
%ifnum x
c
%endif
%ifint 1.5
d
%endif
%ifint +3
e
%endif
%ifnnum
f
%endif
