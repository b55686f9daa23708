%macro m 0
%%a: b %%a, %{%a}x
%endmacro
m
m
