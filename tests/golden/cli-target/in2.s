        target  inf2
section vector
        halt
