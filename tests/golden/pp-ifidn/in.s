%define A x y
%ifidn A, x y
a
%endif
%ifidn A, X y
b
%endif
%ifidni A, X Y
c
%endif
%ifnidn "a", "b"
d
%endif
%ifidn {a,b}, {a,b}
e
%endif
%ifidn a,
f
%endif
