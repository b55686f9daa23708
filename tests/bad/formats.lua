-- Damaged .npz and safetensors files, and command lines that name them wrongly: adds files and cases
-- to those of cases.lua. The program of the cases has an input a and an output c, float32[128, 64].
local zip = require "zip"

local data = ("\0"):rep(128 * 64 * 4)
local npy = zip.npy("'<f4'", "(128, 64)", data)
local function member(change)
  local m = {name = "a.npy", data = npy}
  for k, v in pairs(change) do m[k] = v end
  return m
end
local function tensors(entries, bytes) return string.pack("<s8", "{" .. entries .. "}") .. (bytes or data) end
local function entry(dtype, shape, from, to)
  return ('"a":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}'):format(dtype, shape, from, to)
end

-- File, its contents, what is said of it after its name.
local damaged = {
  {"text.npz", "no archive", "not a valid .npz file: Not a zip archive"},
  {"cut.npz", zip.make {member {}}:sub(1, -30), "not a valid .npz file: Not a zip archive"},
  {"count.npz", zip.make({member {}}, 7), "not a valid .npz file: Zip archive inconsistent"},
  {"twice.npz", zip.make {member {}, member {}}, "not a valid .npz file: two members have one name"},
  {"method.npz", zip.make {member {method = 12}},
    "not a valid .npz file: member 'a.npy': compression method 12 is neither stored (0) nor deflated (8)"},
  {"secret.npz", zip.make {member {flags = 1, data = ("k"):rep(12) .. npy, size = #npy}}, "not a valid .npz file: member 'a.npy' is encrypted"},
  {"bomb.npz", zip.make {member {method = 8, data = "bomb", size = 4000000000}},
    "not a valid .npz file: member 'a.npy': 4 bytes deflated cannot be 4000000000"},
  {"stored.npz", zip.make {member {size = 5}}, "not a valid .npz file: member 'a.npy': " .. #npy .. " bytes stored cannot be 5"},
  {"crc.npz", zip.make {member {crc = 1}}, "member 'a.npy': it cannot be unpacked: CRC error"},
  {"stream.npz", zip.make {member {method = 8, data = "\7" .. npy}}, "member 'a.npy': it cannot be unpacked: Zlib error: data error"},
  {"short.npz", zip.make {member {data = npy:sub(1, -2)}},
    "member 'a.npy': not a valid .npy file: 32767 bytes of data, but its shape and type need 32768"},
  {"magic.npz", zip.make {member {data = "x"}}, "member 'a.npy': not a valid .npy file: it does not start with the .npy magic"},
  {"absent.npz", zip.make {member {name = "x.npy"}}, "there is no tensor 'a'; it has: x"},
  {"none.npz", zip.make {}, "there is no tensor 'a'; it has: nothing"},

  {"short.safetensors", "{}", "not a valid safetensors file: 2 bytes; the length of its header alone takes 8"},
  {"length.safetensors", string.pack("<I8", 3) .. "{}",
    "not a valid safetensors file: a header of 3 bytes; the file has 2 after its length, the format allows 100000000"},
  {"list.safetensors", string.pack("<s8", "[]"), "not a valid safetensors file: its header does not begin with {"},
  {"json.safetensors", tensors '"a"', "not a valid safetensors file: header: byte 5: ':' expected near '}'"},
  {"twice.safetensors", tensors(entry("F32", "[1]", 0, 4) .. "," .. entry("F32", "[1]", 4, 8), ("\0"):rep(8)),
    "not a valid safetensors file: header: byte 57: duplicate object key near '\"a\"'"},
  {"metadata.safetensors", tensors '"__metadata__":{"x":1}',
    "not a valid safetensors file: __metadata__: the value of 'x' is not a string"},
  {"key.safetensors", tensors '"a":{"x":1}', "not a valid safetensors file: tensor 'a': key 'x' is unknown"},
  {"dtype.safetensors", tensors '"a":{"shape":[1]}', "not a valid safetensors file: tensor 'a': dtype is not a string"},
  {"negative.safetensors", tensors(entry("F32", "[-1]", 0, 4)),
    "not a valid safetensors file: tensor 'a': shape is not a list of integers from 0"},
  {"offsets.safetensors", tensors '"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}',
    "not a valid safetensors file: tensor 'a': data_offsets are not two integers from 0"},
  {"outside.safetensors", tensors(entry("F32", "[1]", 0, 40000)),
    "not a valid safetensors file: tensor 'a': data_offsets [0, 40000] are not within the 32768 bytes of data"},
  {"hole.safetensors", tensors(entry("F32", "[1]", 32764, 32768)),
    "not a valid safetensors file: bytes 0 to 32763 of the data, before 'a', belong to no tensor"},
  {"rest.safetensors", tensors(entry("F32", "[1]", 0, 4)), "not a valid safetensors file: bytes 4 to 32767 of the data belong to no tensor"},
  {"overlap.safetensors", tensors(entry("F32", "[8192]", 0, 32768) .. ',"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}'),
    "not a valid safetensors file: tensor 'b' begins at byte 8 of the data, within 'a', which ends at 32768"},
  {"size.safetensors", tensors(entry("F32", "[128, 63]", 0, 32768)),
    "tensor 'a': not a valid safetensors file: its data_offsets [0, 32768] hold 32768 bytes, but its shape and type need 32256"},
  {"type.safetensors", tensors(entry("F4", "[128, 512]", 0, 32768)),
    "not a valid safetensors file: tensor 'a': type 'F4' is not one that this reader knows"},
  {"absent.safetensors", tensors('"x":{"dtype":"F32","shape":[8192],"data_offsets":[0,32768]}'), "there is no tensor 'a'; it has: x"},
}

return function(files, commands)
  local function add(name, arguments, err, exit)
    commands[#commands + 1] = {name = name, command = "$SOMA t.s " .. arguments, exit = exit, err = "soma: error: " .. err .. "\n"}
  end
  for _, d in ipairs(damaged) do
    files[d[1]] = d[2]
    add(d[1], "--in a=" .. d[1] .. " --out c=c.npz", d[1] .. ": " .. d[3], 1)
  end
  files["a.npz"] = zip.make {member {}}
  files["a.safetensors"] = tensors(entry("F32", "[128, 64]", 0, 32768))
  local usage = "\ntry soma --help"
  add("npz not there", "--in a=nothing.npz", "cannot read 'nothing.npz': No such file or directory", 1)
  add("whole npz not there", "--in nothing.npz", "cannot read 'nothing.npz': No such file or directory", 1)
  add("whole npz of text", "--in text.npz", "text.npz: not a valid .npz file: Not a zip archive", 1)
  add("whole npz without inputs", "--in absent.npz", "absent.npz has no input tensor of the program", 1)
  add("two whole files", "--in a.npz --in a.safetensors", "input tensor 'a' is in a.npz and in a.safetensors", 1)
  add("member without a tensor", "--in a.npz:a", "--in a.npz:a: say for which tensor, --in NAME=a.npz:a" .. usage)
  add("no such member", "--in a=a.npz:b", "a.npz: there is no tensor 'b'; it has: a", 1)
  add("one member twice", "--in a.npz --out a=o.npz:x --out c=o.npz:x", "--out: two tensors would be 'x' of o.npz" .. usage)
  add("npz unwritable", "--in a.npz --out c=no/c.npz", "cannot write 'no/c.npz': No such file or directory", 1)
  add("safetensors unwritable", "--in a.npz --out c=no/c.safetensors", "cannot write 'no/c.safetensors': No such file or directory", 1)
  add("member with a bad name", "--in a.npz --out c=o.safetensors:__metadata__",
    "save_safetensors: no tensor can be called '__metadata__': names must be UTF-8, and not __metadata__", 1)
end
