%macro m 2
 a <%1> <%2>
%endmacro
m {x, y}, {{z}}
