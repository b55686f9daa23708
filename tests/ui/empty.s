; No event at all.
        target  trn2
section vector
        halt
