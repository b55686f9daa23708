%assign i 0
%rep 2
%rep 2
 a i
%assign i i+1
%endrep
b
%endrep
