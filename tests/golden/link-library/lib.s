; a library: doubles a tile
tmp     tensor  float32[128, 64]
t       tile    sbuf float32[128, 64]
pad     tile    sbuf float32[128, 10], at=4096
u       tile    psum float32[128, 64]
done    sem
own     sem
extern ready sem
extern q queue dge=hwdge
extern x tensor float32[128, 64]
global  t, done
section vector
double: tensor_scalar t, t, op0=mult, imm0=2.0  $ready>=1 $done++
        tensor_copy u, t $own++
.local: blt     r1, r2, .local
        ret     r63
global  double
section sync
load:   dma_copy t, x, queue=q  $ready
        ret     r63
global  load
