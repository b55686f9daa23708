%define a0 nop,nop,nop,nop,nop,nop,nop,nop
%assign i 0
%rep 20
%assign k i + 1
%xdefine a%+k a%+i,a%+i,a%+i,a%+i
%assign i i + 1
%endrep
section vector
        halt
