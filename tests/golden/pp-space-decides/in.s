%define f (a)
f
