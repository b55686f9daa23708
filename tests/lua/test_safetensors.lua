-- safetensors files: hand-made ones (tests/data/safetensors/make.py), ours, damaged ones; and files
-- that are mapped rather than read, of this format and of .npy.
local soma = require "soma"
local t = require "harness"
local case, eq, raises, fails = t.case, t.eq, t.raises, t.fails
local inf = math.huge

local dir = "tests/data/safetensors/"
-- A file of this header text and data.
local function file(header, data) return string.pack("<s8", header) .. (data or "") end
local function sorted_names(tensors)
  local list = {}
  for name in pairs(tensors) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local types = {
  i64 = {"int64", {math.mininteger, 3}}, u64 = {"uint64", {-1}}, f64 = {"float32", {0x1.99999ap-4, -inf}},
  f32 = {"float32", {{1.5}, {-2.0}}}, i32 = {"int32", {-7}}, u32 = {"uint32", 4294967295},
  bf16 = {"bfloat16", {1.0, -3.0, inf}}, f16 = {"float16", {{1.0, -2.5}}}, i16 = {"int16", {-2}},
  u16 = {"uint16", {65535}}, f8_e4m3 = {"float8_e4m3fn", {1.0, -448.0, 0.015625}},
  f8_e5m2 = {"float8_e5m2", {1.0, -57344.0, inf}}, f8_e8m0 = {"float8_e8m0fnu", {1.0, 2.0}},
  i8 = {"int8", {-128, 127}}, u8 = {"uint8", {0, 255}}, bool = {"bool", {true, false}}, none = {"float32", {}},
}

case("every type of the format", function()
  for _, map in ipairs {false, true} do
    local x, metadata = soma.load_safetensors(dir .. "types.safetensors", {dtype = {f64 = "float32"}, map = map})
    eq(sorted_names(x), sorted_names(types))
    for name, want in pairs(types) do
      eq(x[name].dtype, want[1], name)
      eq(x[name].ndim == 0 and x[name]:get() or x[name]:tolist(), want[2], name)
    end
    eq(x.none.shape, {0, 4})
    eq(sorted_names(metadata), {"format", "\u{e9}"}) eq(metadata.format, "pt") eq(metadata["\u{e9}"], "\u{fc}\n")
  end
  fails(dir .. "types.safetensors: tensor 'f64': holds float64, which the machine lacks: store it as float32, or load it with {dtype = \"float32\"}",
    soma.load_safetensors, dir .. "types.safetensors")
  eq(next((soma.load_safetensors(dir .. "nothing.safetensors"))), nil)
  local x = soma.load_safetensors(dir .. "unaligned.safetensors", {map = true})
  eq(x.a:tolist(), {97, 98, 99}) eq(x.b:tolist(), {0.5})
end)

case("some of the tensors", function()
  local path = dir .. "unknown.safetensors"
  local bad = path .. ": not a valid safetensors file: "
  eq(soma.safetensors_names(path), {"a", "c", "deep"})
  eq(soma.load_safetensors(path, {names = {"a"}}).a:tolist(), {97, 98, 99})
  fails(bad .. "tensor 'c': type 'F4' is not one that this reader knows", soma.load_safetensors, path)
  fails(bad .. "tensor 'deep' has 9 dimensions, more than 8", soma.load_safetensors, path, {names = {"deep"}})
  fails(path .. ": there is no tensor 'q'; it has: a, c, deep", soma.load_safetensors, path, {names = {"q"}})
  path = dir .. "types.safetensors"
  eq(soma.load_safetensors(path, {names = {"u16"}, dtype = "bfloat16"}).u16.dtype, "bfloat16")
  fails(path .. ": tensor 'bf16': holds bfloat16, which cannot be read as float16: load it and use astype",
    soma.load_safetensors, path, {names = {"bf16"}, dtype = "float16"})
  fails(path .. ": there is no tensor 'q'; it has: i64, u64, f64, f32, i32, u32, bf16, f16, i16, u16, ...",
    soma.load_safetensors, path, {names = {"q"}})
end)

case("every dtype comes back, with the metadata", function()
  local all, path = {}, t.temp()
  for _, dtype in ipairs(soma.dtypes) do
    all[dtype] = soma.frombytes(string.rep("\1\0\1\0\1\0\1\0", 6), dtype):reshape({2, -1})
  end
  all.turned = soma.arange(6):reshape({2, 3}):transpose()
  all.scalar, all.empty, all['q"\\\n\u{e9}'] = soma.tensor(2.5), soma.zeros({3, 0}), soma.ones(1)
  eq(soma.save_safetensors(path, all, {metadata = {format = "pt", ["a\"b"] = "\1\u{20ac}"}}), true)
  for _, map in ipairs {false, true} do
    local back, metadata = soma.load_safetensors(path, {map = map})
    eq(sorted_names(back), sorted_names(all))
    for name, x in pairs(all) do
      eq(back[name].dtype, x.dtype) eq(back[name].shape, x.shape, name)
      eq(select(2, soma.equal(back[name], x)), nil, name)
    end
    eq(sorted_names(metadata), {'a"b', "format"}) eq(metadata['a"b'], "\1\u{20ac}")
  end
  eq(soma.save_safetensors(path, {}), true)
  eq(t.read(path), file "{}      ")
end)

case("the bytes of a file", function()
  local path = t.temp()
  soma.save_safetensors(path, {b = soma.ones(2), a = soma.tensor({7}, "int8"), w = soma.ones(1, "tfloat32")},
    {metadata = {x = "y"}})
  local header = '{"__metadata__":{"soma.dtype.w":"tfloat32","x":"y"},"a":{"data_offsets":[12,13],"dtype":"I8","shape":[1]},' ..
    '"b":{"data_offsets":[0,8],"dtype":"F32","shape":[2]},"w":{"data_offsets":[8,12],"dtype":"U32","shape":[1]}}'
  header = header .. (" "):rep(-#header % 8)
  eq(t.read(path), file(header, string.pack("<ffI4b", 1, 1, 0x3f800000, 7)))
end)

-- Python's own JSON finds what we wrote, where the header says.
case("Python reads what we write", function()
  if not os.execute "command -v python3 >/dev/null" then return end
  local path, script = t.temp(), t.temp([[
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + n].decode())
for name in sorted(header):
    if name == "__metadata__": print(sorted(header[name].items())); continue
    t = header[name]
    lo, hi = t["data_offsets"]
    print(name, t["dtype"], t["shape"], data[8 + n + lo:8 + n + hi].hex())
]])
  soma.save_safetensors(path, {a = soma.arange(3):reshape({3, 1}), b = soma.full(2, -3, "bfloat16")}, {metadata = {k = "v"}})
  local p = assert(io.popen("python3 " .. script .. " " .. path .. " 2>&1"))
  eq(p:read("a"), "[('k', 'v')]\na I32 [3, 1] 000000000100000002000000\nb BF16 [2] 40c040c0\n")
  p:close()
end)

case("headers that are refused, and why", function()
  local function bad(text, content)
    local path = t.temp(content)
    fails(path .. ": not a valid safetensors file: " .. text, soma.load_safetensors, path)
    fails(path .. ": not a valid safetensors file: " .. text, soma.safetensors_names, path)
  end
  bad("0 bytes; the length of its header alone takes 8", "")
  bad("7 bytes; the length of its header alone takes 8", "\2\0\0\0\0\0\0")
  bad("a header of 3 bytes; the file has 2 after its length, the format allows 100000000", "\3\0\0\0\0\0\0\0{}")
  bad("a header of 9223372036854775807 bytes; the file has 2 after its length, the format allows 100000000",
    string.pack("<i8", math.maxinteger) .. "{}")
  bad("a header of more than 2^63 bytes; the file has 2 after its length, the format allows 100000000", ("\255"):rep(8) .. "{}")
  bad("its header does not begin with {", file "")
  bad("its header does not begin with {", file " {}")
  bad("its header does not begin with {", file "[]")
  bad("header: byte 1: string or '}' expected near end of file", file "{")
  bad("header: byte 3: end of file expected near 'x'", file "{}x")
  bad("header: byte 10: duplicate object key near '\"a\"'", file '{"a":1,"a":2}')
  raises("unable to decode byte 0xff", soma.load_safetensors, t.temp(file '{"\xff":1}'))
  raises("unexpected newline", soma.load_safetensors, t.temp(file '{"a\nb":1}'))
  raises("NUL byte in object key", soma.load_safetensors, t.temp(file '{"a\\u0000b":1}'))
  raises("maximum parsing depth reached", soma.load_safetensors, t.temp(file('{"a":' .. ("["):rep(100000))))
  bad("__metadata__ is not an object", file '{"__metadata__":[]}')
  bad("__metadata__: the value of 'a' is not a string", file '{"__metadata__":{"a":1}}')
  bad("tensor 'a' is not an object", file '{"a":1}')
  bad("tensor 'a': dtype is not a string", file '{"a":{}}')
  bad("tensor 'a': dtype is not a string", file '{"a":{"dtype":1,"shape":[],"data_offsets":[0,0]}}')
  bad("tensor 'a': key 'strides' is unknown", file '{"a":{"strides":1}}')
  for _, shape in ipairs {'1', '[-1]', '[1.0]', '["1"]', '{}'} do
    bad("tensor 'a': shape is not a list of integers from 0", file('{"a":{"dtype":"U8","shape":' .. shape .. ',"data_offsets":[0,1]}}', "x"))
  end
  raises("too big integer", soma.load_safetensors, t.temp(file '{"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}}'))
  for _, offsets in ipairs {'1', '[0]', '[0,1,1]', '[0,1.0]', '[-1,0]', 'null'} do
    bad("tensor 'a': data_offsets are not two integers from 0", file('{"a":{"dtype":"U8","shape":[1],"data_offsets":' .. offsets .. '}}', "x"))
  end
end)

-- Entries {name, begin, end} over four bytes of data.
case("places that are refused, and why", function()
  local function bad(text, ...)
    local header = {}
    for i, e in ipairs {...} do
      header[i] = ('"%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}'):format(e[1], math.max(0, e[3] - e[2]), e[2], e[3])
    end
    local path = t.temp(file("{" .. table.concat(header, ",") .. "}", "abcd"))
    if not text then return eq(soma.load_safetensors(path).a ~= nil, true) end
    fails(path .. ": not a valid safetensors file: " .. text, soma.load_safetensors, path, {names = {}})
  end
  bad(nil, {"a", 0, 4})
  bad(nil, {"b", 2, 4}, {"a", 0, 2}) -- the order of the entries is free
  bad(nil, {"b", 2, 4}, {"z", 2, 2}, {"a", 0, 2})
  bad("tensor 'a': data_offsets [3, 2] are not within the 4 bytes of data", {"a", 3, 2})
  bad("tensor 'a': data_offsets [0, 5] are not within the 4 bytes of data", {"a", 0, 5})
  bad("tensor 'a': data_offsets [0, 9223372036854775807] are not within the 4 bytes of data", {"a", 0, math.maxinteger})
  bad("bytes 0 to 0 of the data, before 'a', belong to no tensor", {"a", 1, 4})
  bad("bytes 0 to 3 of the data belong to no tensor")
  bad("bytes 3 to 3 of the data belong to no tensor", {"a", 0, 3})
  bad("bytes 1 to 2 of the data, before 'b', belong to no tensor", {"b", 3, 4}, {"a", 0, 1})
  bad("tensor 'b' begins at byte 1 of the data, within 'a', which ends at 2", {"a", 0, 2}, {"b", 1, 4})
  bad("tensor 'b' begins at byte 0 of the data, within 'a', which ends at 4", {"a", 0, 4}, {"b", 0, 4})
end)

case("types and shapes that do not fit", function()
  local function bad(text, dtype, shape, metadata)
    local path = t.temp(file(('{%s"a":{"dtype":"%s","shape":%s,"data_offsets":[0,4]}}'):format(metadata or "", dtype, shape), "\1\0\2\0"))
    fails(path .. ": " .. text, soma.load_safetensors, path)
  end
  local invalid = "not a valid safetensors file: "
  bad("tensor 'a': " .. invalid .. "its data_offsets [0, 4] hold 4 bytes, but its shape and type need 8", "F32", "[2]")
  bad("tensor 'a': " .. invalid .. "its data_offsets [0, 4] hold 4 bytes, but its shape and type need 0", "F32", "[2, 0]")
  bad("tensor 'a': " .. invalid .. "its data_offsets [0, 4] hold 4 bytes, but its shape and type need 2", "BF16", "[]")
  bad("tensor 'a': " .. invalid .. "its shape is too large", "F32", "[4294967296, 4294967296]")
  bad("tensor 'a': " .. invalid .. "its shape is too large", "F32", "[9223372036854775807]")
  bad("tensor 'a': " .. invalid .. "element 2 of type bool is 2, not 0 or 1", "BOOL", "[4]")
  bad(invalid .. "tensor 'a': type 'C64' is not one that this reader knows", "C64", "[1]")
  bad(invalid .. "tensor 'a': type 'f32' is not one that this reader knows", "f32", "[1]")
  bad(invalid .. "__metadata__ says that 'a' is tfloat32, but its dtype is U16", "U16", "[2]", '"__metadata__":{"soma.dtype.a":"tfloat32"},')
  bad(invalid .. "__metadata__ says that 'a' is tfloat32, but its dtype is F32", "F32", "[1]", '"__metadata__":{"soma.dtype.a":"tfloat32"},')
  bad(invalid .. "__metadata__ says that 'a' is x, but its dtype is U32", "U32", "[1]", '"__metadata__":{"soma.dtype.a":"x"},')
end)

case("files that cannot be opened or written, wrong arguments", function()
  local none, message = soma.load_safetensors "/nowhere/x"
  eq(none, nil) eq(message, "cannot read '/nowhere/x': No such file or directory")
  fails("/dev/null: a safetensors file must be a regular file", soma.load_safetensors, "/dev/null")
  local path = t.temp "before"
  local one = {a = soma.ones(1)}
  none, message = soma.save_safetensors("/nowhere/x", one)
  eq(none, nil) eq(message, "cannot write '/nowhere/x': No such file or directory")
  none, message = soma.save_safetensors("/dev/full", {a = soma.ones(100000)})
  eq(none, nil) eq(message, "cannot write '/dev/full': No space left on device")
  fails("save_safetensors: 'a': a tensor was expected, got string", soma.save_safetensors, path, {a = "x"})
  local names = "save_safetensors: no tensor can be called '%s': names must be UTF-8, and not __metadata__"
  fails(names:format "\xff", soma.save_safetensors, path, {["\xff"] = one.a})
  fails(names:format "__metadata__", soma.save_safetensors, path, {__metadata__ = one.a})
  fails("save_safetensors: option 'metadata' must be a table, not string", soma.save_safetensors, path, one, {metadata = "x"})
  fails("save_safetensors: metadata must be strings by name, not number by string", soma.save_safetensors, path, one, {metadata = {a = 1}})
  fails("save_safetensors: metadata 'a' is not UTF-8 without zero bytes", soma.save_safetensors, path, one, {metadata = {a = "\xff"}})
  fails("save_safetensors: metadata 'a' is not UTF-8 without zero bytes", soma.save_safetensors, path, one, {metadata = {a = "x\0y"}})
  fails("save_safetensors: metadata 'soma.dtype.b': names that begin with soma.dtype. are taken", soma.save_safetensors,
    path, one, {metadata = {["soma.dtype.b"] = "int8"}})
  eq(t.read(path), "before")
end)

-- ---- Mapping -------------------------------------------------------------------------------

-- Whether a file is mapped now; nil where the system does not say.
local function mapped(path)
  local f = io.open "/proc/self/maps"
  if not f then return nil end
  local all = f:read "a"
  f:close()
  return all:find(path, 1, true) ~= nil
end

case("mapped files: the same tensors; writing changes memory, not the file", function()
  local path, x = t.temp(), soma.arange(6):reshape({2, 3})
  for _, f in ipairs {
    {function() x:save_npy(path) end, function(map) return soma.load_npy(path, {map = map}) end},
    {function() soma.save_safetensors(path, {x = x}) end, function(map) return soma.load_safetensors(path, {map = map}).x end},
  } do
    f[1]()
    local before = t.read(path)
    eq(f[2](nil):tolist(), x:tolist()) -- small: read
    eq(mapped(path), false)
    local y = f[2](true)
    eq(mapped(path), true)
    local row = y[1]
    eq(soma.equal(y, x), true)
    y[{1, 2}] = 9
    eq(row:tolist(), {3, 4, 9}) -- a view shares the pages
    eq(t.read(path), before)
    soma.zeros({7}):save_npy(path) -- a new file of that name
    eq(y:tolist(), {{0, 1, 2}, {3, 4, 9}})
    y = nil collectgarbage()
    eq(row:tolist(), {3, 4, 9})
    row = nil collectgarbage() collectgarbage()
    eq(mapped(path), false)
  end
end)

case("files of 16 MiB and more are mapped", function()
  local path = t.temp()
  local function size_of(bytes)
    soma.zeros({bytes - 128}, "uint8"):save_npy(path)
    eq(#t.read(path), bytes)
    local x = soma.load_npy(path)
    local is = mapped(path)
    x = soma.load_npy(path, {map = false})
    collectgarbage() collectgarbage()
    eq(mapped(path), false)
    return is, x:any()
  end
  eq(size_of((16 << 20) - 1), false)
  eq(size_of(16 << 20), true)
end)

case("what cannot be mapped is read", function()
  local zip = require "zip"
  local path = t.temp(zip.npy("'>i2'", "(2,)", "\0\1\0\2"))
  eq(soma.load_npy(path, {map = true}):tolist(), {1, 2})
  collectgarbage() collectgarbage()
  eq(mapped(path), false)
  path = t.temp(zip.npy("'<f8'", "(1,)", string.pack("<d", 0.5)))
  eq(soma.load_npy(path, {map = true, dtype = "float32"}):tolist(), {0.5})
  path = t.temp(zip.npy("'<i4'", "(1, )", "\5\0\0\0")) -- at an odd place
  eq(#t.read(path) % 4, 1)
  eq(soma.load_npy(path, {map = true}):tolist(), {5})
  path = t.temp(zip.npy("'|b1'", "(2,)", "\1\2"))
  fails(path .. ": not a valid .npy file: element 1 of type bool is 2, not 0 or 1", soma.load_npy, path, {map = true})
  path = t.temp(zip.npy("'|u1'", "(2,)", "\1"))
  fails(path .. ": not a valid .npy file: 1 bytes of data, but its shape and type need 2", soma.load_npy, path, {map = true})
  path = t.temp(zip.npy("'|u1'", "(0,)", ""))
  eq(soma.load_npy(path, {map = true}).shape, {0})
  raises("map' must be a boolean, not number", soma.load_npy, path, {map = 1})
end)

t.finish()
