x       tensor  int32[4, 4]
t       tile    sbuf int32[8, 8]
section gpsimd
        tensor_load r1, x[2, 3]
        tensor_load r2, t[3, 5]
        tensor_store x[r3, 1], r4
        tensor_store t[0, r5 + 1], r6
        device_print "x = ", x[0], to=stderr
        halt
