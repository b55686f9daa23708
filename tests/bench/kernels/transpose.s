; y = x transposed, bfloat16 N x N: the tensor engine turns blocks of 128 x 128 into PSUM.
;   -D N=n   a multiple of 512
        target  trn2
x       tensor  bfloat16[N, N], input
y       tensor  bfloat16[N, N], output
one     tile    sbuf bfloat16[128, 128]
id      tile    sbuf bfloat16[128, 128]
tx      tile    sbuf bfloat16[128, 512]
p       tile    psum bfloat16[128, 4, 128]
ty      tile    sbuf bfloat16[128, 4, 128]
unit    sem
full    sem
turned  sem
copied  sem
stored  sem
qin     queue   rings=16, dge=hwdge
qout    queue   rings=16, dge=swdge

section sync
        mov       r0, 0                 ; row
        mov       r2, 0                 ; blocks turned before
.rows:  mov       r1, 0                 ; column
.next:  dma_copy  tx, x[r0:+128, r1:+512], queue=qin  $turned>=r2 $full
        add       r2, r2, 4
        add       r1, r1, 512
        blt       r1, N, .next
        add       r0, r0, 128
        blt       r0, N, .rows
        halt

section tensor
        nop       $unit>=1
        mov       r0, 0
        mov       r1, 16
        mov       r2, 0
.next:  nop       $copied>=r2
        nop       $full>=r1
        add       r1, r1, 16
        add       r2, r2, 1
%assign k 0
%rep 4
        nc_transpose p[:, k, :], tx[:, k*128:k*128+128], identity=id  $turned++
%assign k k + 1
%endrep
        add       r0, r0, 1
        blt       r0, (N / 128) * (N / 512), .next
        halt

section vector
        mov       r0, 0
        mov       r1, 4
        mov       r2, 0
.next:  nop       $stored>=r2
        tensor_copy ty, p       $turned>=r1 $copied++
        add       r0, r0, 1
        add       r1, r1, 4
        add       r2, r2, 16
        blt       r0, (N / 128) * (N / 512), .next
        halt

section gpsimd
        memset    one, 1.0
        affine_select id, one, 0.0, pattern=[[-1, 128]], multiplier=1, cmp=is_equal  $unit++
        mov       r2, 1
        mov       r3, 0                 ; row of x: column of y
.rows:  mov       r1, 0                 ; column of x: row of y
        mov       r4, r3
.next:  dma_copy  bfloat16@hbm[y,0+r4*1][1,128*N,N][128,4,128], ty, queue=qout  $copied>=r2 $stored
        add       r2, r2, 1
        add       r4, r4, 512 * N
        add       r1, r1, 512
        blt       r1, N, .next
        add       r3, r3, 128
        blt       r3, N, .rows
        halt
