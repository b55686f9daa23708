%macro m 1
%if %1
 a
%exitmacro
%endif
 b
%endmacro
m 1
m 0
