%assign f 1.5*3
f
%assign s "a"
s
