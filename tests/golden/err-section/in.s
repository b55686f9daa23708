target trn2
section vektor
section
section sync core=1
section sync core=2
section sync now
section sync
        halt
