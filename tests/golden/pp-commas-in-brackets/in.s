%define f(a,b) a|b
f(t[1,2], (3,4))
