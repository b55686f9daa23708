%warning something "odd"
%note  and this
section vector
        halt
