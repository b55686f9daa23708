%define f(a,b) (a*b)
f(1,2) f(f(1,2),f(3,4)) f (5,6) f
