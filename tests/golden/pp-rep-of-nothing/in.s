%rep 0
a
%endrep
%rep 2
%endrep
b
