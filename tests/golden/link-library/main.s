x       tensor  float32[128, 64], input
y       tensor  float32[128, 64], output
tmp     tensor  float32[128, 64]
a       tile    sbuf float32[128, 64]
q       queue   dge=hwdge
own     sem
ready   sem
extern t tile sbuf float32[128, 64]
extern done sem
global  x, ready, q
section vector
extern  double
        call    r63, double
        tensor_copy a, t  $own++
        blt     r0, 5, double
double.local:
        jmp     double.local
section sync
extern  load
        call    r63, load
        dma_copy y, t, queue=q  $done>=1 $own
        halt
