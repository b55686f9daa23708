target trn2
a  tensor float32[512, 2048], input
c  tensor float32[512, 2048], output
ta tile sbuf float32[128, 2048]
tb tile sbuf float32[128, 2048]
tc tile sbuf float32[128, 2048]
ps tile psum float32[128, 512]
s1 sem
q  queue dge=hwdge
section sync
start:  mov r1, -1
        mov r2, 0xffffffff
        mov r3, r1
        add r3, r3, 'a'
        not r4, r3
        shl r4, r4, 1 << 3
        call r63, .sub
        jmp done
.sub:   sra r4, r4, 3
        ret r63
done:   bltu r1, r2, start
        bge r1, 0x7fffffff, start.sub
        tensor_load r5, a[0, 3]
        tensor_store c[r1, 3], r5
        sem_range_clear s1, 4
        drain
        notify 7
        nop
        halt $s1++
