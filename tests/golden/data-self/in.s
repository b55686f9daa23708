a       tensor  int32[2, 3], const
        int32   a.ndim, a.shape[1], sizeof(a)
        times 3 int32 -1
        target  trn2
