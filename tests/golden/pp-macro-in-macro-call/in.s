%macro in 1
 a %1 %%l
%endmacro
%macro out 1
 in <%1>
 in %%l
%endmacro
out x
