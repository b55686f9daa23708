; One load (or with STORE one store) of [P, BYTES] through RINGS rings; vector waits for it.
        target  TARGET
h       tensor  uint8[P, BYTES]
t       tile    sbuf uint8[P, BYTES]
done    sem
q       queue   rings=16, dge=DGE
section gpsimd
%ifdef STORE
        dma_copy  h, t, queue=q  $done
%else
        dma_copy  t, h, queue=q  $done
%endif
        halt
section vector
        nop       $done>=16
        halt
