%assign i 0
%rep 3
 a i
%assign i i+1
%endrep
b
