; sections may alternate, labels are each section's own
section vector
a:      nop
section scalar
a:      nop
section vector
        jmp     a
section scalar
        jmp     a
