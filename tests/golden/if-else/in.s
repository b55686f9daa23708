a       sem
section vector
        if      r0, lt, 5
        add     r0, r0, 1
        else
        sub     r0, r0, 1
        endif
        if      r1 == r2
        mov     r1, 0
        endif
        if      r1, geu, 0x80000000
        halt
        else
        mov     r3, 3
        endif
        loop    r4, 0, 10
          if    r4 >= 5
            if  r4 != 7
            add r5, r5, r4
            endif
          endif
        endloop
        if      r1 > r2   $a>=1
        mov     r6, 1
        else
        mov     r6, 2
        endif
        nop     $a++
        halt
