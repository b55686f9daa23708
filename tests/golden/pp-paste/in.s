%define n 3
%define cat(a,b) a %+ b
x %+ y cat(t, n) cat(p,) a %+ n %+ b
