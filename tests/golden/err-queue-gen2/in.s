target trn1
a queue dge=hwdge
section sync
        halt
