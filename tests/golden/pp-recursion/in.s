%macro m 1
%if %1 == 0
%exitmacro
%endif
 a %1
%assign i %1 - 1
 m i
%endmacro
m 3
