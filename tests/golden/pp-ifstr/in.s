%ifstr "x"
a
%endif
%ifstr x
b
%endif
%ifid x
c
%endif
%ifnid 1
d
%endif
