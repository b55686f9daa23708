%define 1 2
%define
%define f(a,1) 2
%define f(a b) 2
