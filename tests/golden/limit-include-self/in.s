%ifndef ONCE
%define ONCE
%include "in.s"
%else
section vector
        halt
%endif
