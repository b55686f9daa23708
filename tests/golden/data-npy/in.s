w       tensor  float32[2, 3], const = npy "w.npy"
i       tensor  int16[2], const = npy "i.npy"
b       tensor  bfloat16[2], const = npy "b.npy"
t       tensor  bool[2], const
        npy     "t.npy"
