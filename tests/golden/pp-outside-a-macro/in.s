a %1
b %%x
%rotate 1
%exitmacro
%endmacro
c %?
%macro
%macro m
