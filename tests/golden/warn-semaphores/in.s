a       sem
b       sem
c       sem     core=1
d       sem
section vector
        nop     $a>=1
        nop     $b++
        nop     $d>=0
        halt
section vector core=1
        nop     $c>=2
        nop     $S[0,0]>=5
        halt
