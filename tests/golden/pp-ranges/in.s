%macro m 1-*
 a %{1:-1} | %{2:3} | %{-1:1} | %{-2:-1}
%endmacro
m p, q, r
