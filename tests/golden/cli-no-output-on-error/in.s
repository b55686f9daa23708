section sync
 bad
