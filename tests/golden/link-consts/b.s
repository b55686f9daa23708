extern w tensor int8[4]
c       tensor  int8[4], const = [9, 9, 9, 9]
t       tile    sbuf int8[1, 4]
section sync
q       queue   dge=none
        dma     q, t[0, 0:2], w[2:4]
        dma     q, t[0, 2:4], c[0:2]
        dma_trigger q, 2
        device_print "w", t
        halt
