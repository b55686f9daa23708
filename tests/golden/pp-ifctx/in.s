%ifctx
a
%endif
%push p
%ifctx p
b
%elifctx q
c
%endif
%ifctx
d
%endif
%pop
