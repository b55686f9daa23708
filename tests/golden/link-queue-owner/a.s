q       queue   dge=hwdge
idle    queue   dge=hwdge
t       tile    sbuf float32[8, 8]
global  q, t, idle
section vector
        halt
