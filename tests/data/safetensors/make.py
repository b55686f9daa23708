#!/usr/bin/env python3
"""Makes the safetensors files of this folder from the format's description, with nothing but
Python. What they hold is written again, by hand, in tests/lua/test_safetensors.lua."""
import json
import struct


def write(path, tensors, metadata=None, pad=True):
    """tensors: (name, dtype, shape, bytes)"""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, ensure_ascii=False).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors))


write("types.safetensors", [
    ("i64", "I64", [2], struct.pack("<qq", -2**63, 3)),
    ("u64", "U64", [1], struct.pack("<Q", 2**64 - 1)),
    ("f64", "F64", [2], struct.pack("<dd", 0.1, -1e300)),
    ("f32", "F32", [2, 1], struct.pack("<ff", 1.5, -2.0)),
    ("i32", "I32", [1], struct.pack("<i", -7)),
    ("u32", "U32", [], struct.pack("<I", 4294967295)),
    ("bf16", "BF16", [3], struct.pack("<HHH", 0x3f80, 0xc040, 0x7f80)),
    ("f16", "F16", [1, 2], struct.pack("<HH", 0x3c00, 0xc100)),
    ("i16", "I16", [1], struct.pack("<h", -2)),
    ("u16", "U16", [1], struct.pack("<H", 65535)),
    ("f8_e4m3", "F8_E4M3", [3], b"\x38\xfe\x08"),
    ("f8_e5m2", "F8_E5M2", [3], b"\x3c\xfb\x7c"),
    ("f8_e8m0", "F8_E8M0", [2], b"\x7f\x80"),
    ("i8", "I8", [2], b"\x80\x7f"),
    ("u8", "U8", [2], b"\x00\xff"),
    ("bool", "BOOL", [2], b"\x01\x00"),
    ("none", "F32", [0, 4], b""),
], {"format": "pt", "\u00e9": "\u00fc\n"})
write("unaligned.safetensors", [("a", "U8", [3], b"abc"), ("b", "F32", [1], struct.pack("<f", 0.5))],
      pad=False)
write("unknown.safetensors", [("a", "U8", [3], b"abc"), ("c", "F4", [4], b"\x12\x34"),
                              ("deep", "U8", [1] * 9, b"x")])
write("nothing.safetensors", [])
