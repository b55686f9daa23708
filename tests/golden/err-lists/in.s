target trn2
i tile sbuf int32[128, 8]
section gpsimd
        iota i, pattern=[1, 8]
        iota i, pattern=[[1, 8]
        iota i, pattern=[[1,1],[1,1],[1,1],[1,1],[1,8]]
        iota i, pattern=[]
        iota i, pattern=[[1, 8]], multiplier=r0
        iota i, pattern=[[1, 8]], multiplier=1<<31
        halt
section vector
        load_mask_register [1, 2, 300]
        device_print 5, i
        device_print "x", i, to=stdlog
        halt
