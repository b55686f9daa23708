section sync
 halt
