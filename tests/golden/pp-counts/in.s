%define f() 0
%define f(a) 1 a
%define f(a,b) 2 a b
f() f(x) f(x,y)
