target trn2
section sync
        5
        [a]
        "x"
        $s++
        halt
