        target  trn1
section sync core=1
        halt
