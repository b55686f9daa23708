#!/usr/bin/env python3
"""Makes the .npy files of this folder with NumPy. What they hold is written again, by hand, in
tests/lua/test_npy_numpy.lua; NAME.npy of the same arrays in other orders, endianness and versions
must all read as the same tensor."""
import numpy as np
from numpy.lib import format as npy

x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) * np.float32(0.5) - np.float32(3)
np.save("c_order.npy", x)
np.save("fortran_order.npy", np.asfortranarray(x))
np.save("big_endian.npy", x.astype(">f4"))
np.save("big_endian_fortran.npy", np.asfortranarray(x.astype(">f4")))
for version in (1, 2, 3):
    with open("version_%d.npy" % version, "wb") as f:
        npy.write_array(f, x, version=(version, 0))

ends = {t: [np.iinfo(t).min, np.iinfo(t).max, 1] for t in
        ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")}
for name, values in ends.items():
    np.save(name + ".npy", np.array(values, dtype=name))
    if name[-1] != "8":
        np.save(name + "_big.npy", np.array(values, dtype=np.dtype(name).newbyteorder(">")))
np.save("float16.npy", np.array([1.5, -0.0, 65504, 6e-8, np.inf, np.nan], dtype=np.float16))
np.save("float32.npy", np.array([0.1, -0.0, 3.4e38, 1e-45, -np.inf], dtype=np.float32))
np.save("float64.npy", np.array([0.1, 1 + 2.0**-24 + 2.0**-50, -1e300]))
np.save("bool.npy", np.array([[True, False], [False, True]]))
np.save("scalar.npy", np.float32(2.5))
np.save("empty.npy", np.zeros((0, 3), dtype=np.int16))
np.save("bits.npy", np.array([0x3f80, 0xc040, 0x7f80], dtype=np.uint16))  # bfloat16 1 -3 inf
np.save("void.npy", np.array([b"\x80\x3f", b"\x40\xc0"], dtype="V2"))
np.save("named.npy", np.array([(0x38,), (0xc0,)], dtype=[("float8_e4m3", "u1")]))
np.save("strided.npy", np.arange(20, dtype=np.int32).reshape(4, 5)[1:4:2, ::-2])
# What this reader refuses, with a reason.
np.save("complex.npy", np.array([1 + 2j]))
np.save("text.npy", np.array(["abc"]))
np.save("dates.npy", np.array(["2026-01-01"], dtype="datetime64[D]"))
np.save("longdouble.npy", np.array([1], dtype=np.longdouble))
np.save("record.npy", np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]))
np.save("object.npy", np.array([None, 1], dtype=object))
