target trn2
section vector
%line 7 "kernel.py"
        nop
%line 0
        nop
        drain
%line 8 "\ernel.py"
        halt
section sync
%line 0 "kernel.py"
        halt
