%imacro Foo 0
 nop %? %??
%endmacro
fOO
