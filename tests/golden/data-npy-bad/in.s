a       tensor  float32[2, 3], const = npy "f.npy"
b       tensor  float32[6], const = npy "d.npy"
c       tensor  float32[6], const = npy "be.npy"
d       tensor  float32[3, 2], const = npy "w.npy"
e       tensor  float32[2, 3], const = npy "short.npy"
f       tensor  float32[2, 3], const = npy "head.npy"
g       tensor  float32[2, 3], const = npy "magic.npy"
h       tensor  float32[2, 3], const = npy "ver.npy"
i       tensor  float32[2, 3], const = npy "key.npy"
j       tensor  float32[2, 3], const = npy "none.npy"
k       tensor  int32[2, 3], const = npy "w.npy"
l       tensor  float32[7], const
        float32 1
        npy     "w.npy"
m       tensor  float32[2, 3], const = npy w
