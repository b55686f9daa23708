%macro m 1
 a %{1:2}
%endmacro
m p
