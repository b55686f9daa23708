extern t tile psum float32[8, 8]
extern u tile sbuf float32[8, 8]
extern x tensor float32[8, 9]
extern q queue dge=swdge
extern q2 queue dge=hwdge, owner=scalar
section vector
        halt
