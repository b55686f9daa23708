; COUNT loads (or with STORE stores) of [P, BYTES] one after another; vector waits for them.
        target  TARGET
%ifndef COUNT
%define COUNT 1
%endif
h       tensor  uint8[P, BYTES]
t       tile    sbuf uint8[P, BYTES]
done    sem
q       queue   rings=16, dge=DGE
section gpsimd
%rep COUNT
%ifdef STORE
        dma_copy  h, t, queue=q  $done
%else
        dma_copy  t, h, queue=q  $done
%endif
%endrep
        halt
section vector
        nop       $done>=16*COUNT
        halt
