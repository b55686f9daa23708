target trn2
a tile hbm float32[4, 4]
b tile sbuf float32[129, 4]
c tile sbuf float32[128, 4], att=4
d tile sbuf float32[128, 4], part=1
e tile psum float32[128, 513]
f tile sbuf float32[128, 4], banks=2
g tile psum float32[128, 8], banks=9
h tile sbuf float32[128, 4], at=[0, 229376]
i tile sbuf float32[128, 4], at=0
j tile sbuf float32[128, 4], at=12
k tile sbuf float32[128, 1<<20, 1<<20]
l tile sbuf float32[128, 4], bytes=8
section sync
        halt
