%assign i 0
%rep 100
%if i > 1
%exitrep
%endif
 a i
%assign i i+1
%endrep
b
