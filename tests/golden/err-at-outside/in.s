target trn2
a tile psum float32[128, 4], at=16380
section sync
 halt
