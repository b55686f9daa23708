        float32 1
a       tensor  float32[4], const
        float32 1, 2
b       tensor  float32[2], const
        float32 1, 2, 3
        float32 4
c       tensor  float32[2], const
        int32   1, 2
d       tensor  int8[2], const
        times   3 int8 1
e       tensor  int8[2], const
        times   2 1
f       tensor  int8[2], const
        int8    1,
g       tensor  int8[2], const = [times -1 0]
h       tensor  int8[2], const = [1, 2] 3
i       tensor  float8_e5m2_x4[1], const = [1]
j       tensor  int8[2], const = 7
k       tensor  int8[2], const
.l:
section vector
        halt
        int8    5
