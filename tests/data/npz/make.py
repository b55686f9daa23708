#!/usr/bin/env python3
"""Makes the .npz files of this folder, with NumPy and zipfile. What they hold is written again, by
hand, in tests/lua/test_npz.lua."""
import io
import struct
import warnings
import zipfile
import zlib

import numpy as np

arrays = {
    "f": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "i": np.array([-2, 3], dtype=">i4"),
    "named": np.array([(0x3f80,), (0xc040,)], dtype=[("bfloat16", "<u2")]),
    "s": np.float16(2.5),
    "e": np.zeros((0, 3), dtype=np.int8),
    "b/\u00e9": np.array([True, False]),
}
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays, zeros=np.zeros(100000, dtype=np.float32))
np.savez("nothing.npz")


def npy(a):
    f = io.BytesIO()
    np.lib.format.write_array(f, np.asarray(a))
    return f.getvalue()


x = npy(np.array([1, 2, 3], dtype=np.int16))
for name, method in (("bzip2", zipfile.ZIP_BZIP2), ("lzma", zipfile.ZIP_LZMA)):
    with zipfile.ZipFile(name + ".npz", "w", method) as z:
        z.writestr("x.npy", x)
with zipfile.ZipFile("text.npz", "w") as z:
    z.writestr("x.npy", x)
    z.writestr("readme.txt", "no tensor")
warnings.simplefilter("ignore")
with zipfile.ZipFile("twice.npz", "w") as z:
    z.writestr("x.npy", x)
    z.writestr("x.npy", x)
with zipfile.ZipFile("object.npz", "w") as z:
    z.writestr("o.npy", npy(np.array([1], dtype=np.int32)).replace(b"'<i4'", b"'|O' "))

# Every size, offset and count of a small archive in the fields of ZIP64.
crc, n, name = zlib.crc32(x), len(x), b"x.npy"
most2, most4 = 0xffff, 0xffffffff
local = struct.pack("<IHHHHHIIIHHHHQQ", 0x04034b50, 45, 0, 0, 0, 33, crc, most4, most4, len(name), 20,
                    1, 16, n, n)
local = local[:30] + name + local[30:]
central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 45, 45, 0, 0, 0, 33, crc, most4, most4,
                      len(name), 28, 0, 0, 0, 0, most4) + name + struct.pack("<HHQQQ", 1, 24, n, n, 0)
at = len(local) + n
end64 = struct.pack("<IQHHIIQQQQ", 0x06064b50, 44, 45, 45, 0, 0, 1, 1, len(central), at)
locator = struct.pack("<IIQI", 0x07064b50, 0, at + len(central), 1)
end = struct.pack("<IHHHHIIH", 0x06054b50, most2, most2, most2, most2, most4, most4, 0)
with open("zip64.npz", "wb") as f:
    f.write(local + x + central + end64 + locator + end)
assert np.load("zip64.npz")["x"].tolist() == [1, 2, 3]
