%include "a b.inc"
section vector
        halt
