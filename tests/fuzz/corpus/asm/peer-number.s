 target trn2
s sem
section sync
 nop $peer.5
 halt
