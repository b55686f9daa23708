%assign i 1 2
%assign i
%assign i zz
