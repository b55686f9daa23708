%assign i 2*3
%assign i i+1
i
%assign j -i
j
%assign k 0x10
k
