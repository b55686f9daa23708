%push a
%$x: b %$x
%push
%$x: c %$$x
%define %$v 4
d %$v
%repl n
%ifctx n
e
%endif
%pop n
f %$x
%pop a
