%define T "u"
%if T == "v"
a
%elif T != "v"
b
%endif
