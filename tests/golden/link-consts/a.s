w       tensor  int8[4], const = [1, 2, 3, 4]
m       tile    sbuf float32[32, 8]
global  w
section vector
        load_mask_register [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]
        shuffle m, m
        halt
