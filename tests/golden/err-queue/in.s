target trn2
a queue rings=17
b queue dge=hardware
c queue dge=hwdge, owner=vector
d queue dge=swdge, owner=sync
e queue dge=hwdge, prio=1
f queue ring=16
g queue rings 16
h queue dge=hwdge, owner=snyc
section sync
        halt
