x       tile    sbuf float32[128, 64]
y       tile    sbuf float32[128, 64]
v       tile    sbuf float32[128, 8]
n       tile    sbuf uint32[128, 8]
s       sem
section vector
        nc_find_index8 n, x, v     $s>=1 $s++
        nc_match_replace8 y, x, v, imm=-1.0
        nc_match_replace8 y, x, v, imm=0, dst_idx=n $s++
        nc_stream_shuffle y[0:32], x[0:32], [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,31,30,29,28,27,26,25,24,23,22,21,20,19,18,17,16]  $s==0
        halt
