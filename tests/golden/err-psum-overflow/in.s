target trn2
p0 tile psum float32[128, 1024], banks=2
p1 tile psum float32[128, 1024], banks=2
p2 tile psum float32[128, 1024], banks=2
p3 tile psum float32[128, 1024], banks=2
p4 tile psum float32[1, 1]
section sync
        halt
