; lines of data, made by a loop
w       tensor  float32[8], const
        float32 1, 2.5, -0.0
        times 2 float32 inf
        uint32  0x7fc00001
        times   0 float32 9
        float32 times 2 0.125
squares tensor  int32[5], const
%assign i 0
%rep 5
        int32   i * i
%assign i i + 1
%endrep
v       tensor  int8[4], const = [times (1 + 2) -1, 7]
z       tensor  uint64[2], const = {times 2 0xffffffffffffffff}
