%$x
%pop
%push a
%pop b
%repl 1
%$$x
