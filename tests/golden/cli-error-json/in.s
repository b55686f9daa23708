section sync
 bad "x"
