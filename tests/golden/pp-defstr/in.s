%define v 3
%defstr s a+v, "q"
s
