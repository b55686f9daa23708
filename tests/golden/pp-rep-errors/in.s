%rep -1
a
%endrep
%rep x
%endrep
%endrep
%exitrep
%rep 1
