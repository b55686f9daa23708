%define f(a) t. %+ a
f(x)
