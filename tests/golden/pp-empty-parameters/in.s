%macro m 3
 a <%1><%2><%3> %0
%endmacro
m ,x,
