%define v 5
%macro m 1
%ifnum %1
 n %1
%else
 o %1
%endif
%endmacro
m v
