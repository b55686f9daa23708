%define k 3
%xdefine f(a) a*k
%define k 4
f(2)
