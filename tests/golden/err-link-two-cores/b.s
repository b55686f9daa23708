extern s sem core=1
section sync core=1
        nop     $s>=1
        halt
