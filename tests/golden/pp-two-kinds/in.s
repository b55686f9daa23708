%define f 1
%define f(a) a
