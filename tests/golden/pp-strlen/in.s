%strlen n "abc"
n
%define s `a\n`
%strlen n s
n
