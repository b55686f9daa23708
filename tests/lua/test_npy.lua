-- .npy files: NumPy's own, ours read back, and damaged ones.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

-- A file of version 1.0 with this header text and data.
local function npy(header, data, version)
  local size = version == 1 and "<s2" or "<s4"
  return "\x93NUMPY" .. string.char(version or 1, 0) ..
    string.pack((version or 1) == 1 and "<s2" or size, header .. "\n") .. (data or "")
end
local function head(descr, shape, fortran)
  return "{'descr': " .. descr .. ", 'fortran_order': " .. (fortran and "True" or "False") ..
    ", 'shape': " .. shape .. ", }"
end
local function load(content, options) return soma.load_npy(t.temp(content), options) end

-- soma.assemble takes the files that save_npy writes, types that NumPy lacks included.
case("a saved tensor as the data of a constant", function()
  for _, dtype in ipairs {"bfloat16", "float8_e5m2", "float8_e4m3", "tfloat32", "float32", "int16"} do
    local path = t.temp()
    local x = soma.ones({4, 8}, dtype)
    x:save_npy(path)
    local program = soma.assemble(("target trn2\nw tensor %s[4, 8], const = npy \"%s\"\nsection sync\n halt\n")
      :format(dtype, path))
    eq(soma.equal(soma.core {}:run(program):fetch "w", x), true)
    local other = dtype == "bfloat16" and "float16" or "bfloat16"
    raises("elements of", soma.assemble,
      ("target trn2\nw tensor %s[4, 8], const = npy \"%s\"\nsection sync\n halt\n"):format(other, path))
  end
end)

case("types and byte orders", function()
  local cases = {
    {"'|u1'", "uint8", "B", {0, 255}}, {"'|i1'", "int8", "b", {-128, 127}},
    {"'<u2'", "uint16", "<I2", {1, 65535}}, {"'>i2'", "int16", ">i2", {-2, 3}},
    {"'<i4'", "int32", "<i4", {-2, 3}}, {"'>u4'", "uint32", ">I4", {1, 4294967295}},
    {"'<i8'", "int64", "<i8", {math.mininteger, 3}}, {"'>i8'", "int64", ">i8", {-9, 9}},
    {"'<f4'", "float32", "<f", {1.5, -2.0}}, {"'>f4'", "float32", ">f", {1.5, -2.0}},
    {"'|b1'", "bool", "B", {1, 0}},
  }
  for _, c in ipairs(cases) do
    local x = load(npy(head(c[1], "(2,)"), string.pack(c[3], c[4][1]) .. string.pack(c[3], c[4][2])))
    eq(x.dtype, c[2], c[1])
    eq(x:tolist(), c[2] == "bool" and {true, false} or c[4], c[1])
  end
  eq(load(npy(head("'<f2'", "(2,)"), "\0\x3c\0\xc0")):tolist(), {1.0, -2.0})
end)

case("versions, order, shapes", function()
  local data = string.pack("<i4i4i4i4i4i4", 0, 1, 2, 3, 4, 5)
  for version = 1, 3 do
    eq(load(npy(head("'<i4'", "(2, 3)"), data, version)):tolist(), {{0, 1, 2}, {3, 4, 5}})
  end
  local f = load(npy(head("'<i4'", "(2, 3)", true), data))
  eq(f:tolist(), {{0, 2, 4}, {1, 3, 5}}) eq(f:bytes(), string.pack("<i4i4i4i4i4i4", 0, 2, 4, 1, 3, 5))
  eq(load(npy(head("'<i4'", "()"), string.pack("<i4", 7))):get(), 7)
  eq(load(npy(head("'<i4'", "(0, 3)"))).shape, {0, 3})
  eq(load(npy('{"shape": (1,), "fortran_order": False, "descr": "|u1"}', "a")):tolist(), {97})
end)

case("float64 only on request, rounded once", function()
  local f8 = npy(head("'<f8'", "(2,)"), string.pack("<dd", 1 + 2^-24 + 2^-52, 0.1))
  raises("holds float64", load, f8)
  eq(load(f8, {dtype = "float32"}):tolist(), {1 + 2^-23, 0x1.99999ap-4})
  eq(load(npy(head("'>f8'", "(1,)"), string.pack(">d", 1 + 2^-8 + 2^-40)), {dtype = "bfloat16"}):tolist(), {1 + 2^-7})
  raises("use astype", load, f8, {dtype = "int32"})
end)

case("raw bits take a name", function()
  local v = npy(head("'<V2'", "(1,)"), "\x80\x3f")
  eq(load(v, {dtype = "bfloat16"}):tolist(), {1.0})
  raises("its type has no name", load, v)
  eq(load(npy(head("'<u2'", "(1,)"), "\x80\x3f"), {dtype = "bfloat16"}):tolist(), {1.0})
  eq(load(npy(head("'>u2'", "(1,)"), "\x3f\x80"), {dtype = "bfloat16"}):tolist(), {1.0})
  raises("holds uint16, which cannot be read as float32", load, npy(head("'<u2'", "(1,)"), "ab"), {dtype = "float32"})
  raises("holds float32, which cannot be read as int32", load, npy(head("'<f4'", "(1,)"), "abcd"), {dtype = "int32"})
end)

case("every dtype comes back", function()
  for _, dtype in ipairs(soma.dtypes) do
    local x = soma.frombytes(string.rep("\1\0\1\0\1\0\1\0", 6), dtype)
    local path = t.temp()
    x = x:reshape({2, -1})
    eq(x:save_npy(path), true)
    local back = soma.load_npy(path)
    eq(back.dtype, dtype) eq(select(2, soma.equal(back, x)), nil, dtype)
    eq((#t.read(path) - x.nbytes) % 64, 0)
  end
  local path = t.temp()
  soma.arange(6):reshape({2, 3}):transpose():save_npy(path)
  eq(soma.load_npy(path):tolist(), {{0, 3}, {1, 4}, {2, 5}})
end)

case("the bytes of a file are NumPy's", function()
  local path = t.temp()
  soma.tensor({1, 2}):save_npy(path)
  local text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
  eq(t.read(path), "\x93NUMPY\1\0\x76\0" .. text .. string.rep(" ", 117 - #text) .. "\n" ..
    string.pack("<ff", 1, 2))
  soma.ones({1}, "bfloat16"):save_npy(path)
  eq(t.read(path):find("[('bfloat16', '<u2')]", 1, true) ~= nil, true)
end)

case("damaged files", function()
  local good = head("'<i4'", "(2,)")
  local function bad(text, content) raises("not a valid .npy file: " .. text, load, content) end
  bad("it does not start with the .npy magic", "")
  bad("it does not start with the .npy magic", "\x93NUMPX\1\0\0\0")
  bad("version 9.0", "\x93NUMPY\9\0\0\0")
  bad("version 1.7", "\x93NUMPY\1\7\0\0")
  bad("it ends within its header", "\x93NUMPY\1\0\x76\0{'descr'")
  bad("it ends within its header", "\x93NUMPY\2\0\x76\0")
  bad("a header of 4294967295 bytes", "\x93NUMPY\2\0\255\255\255\255")
  bad("7 bytes of data, but its shape and type need 8", npy(good, "1234567"))
  bad("9 bytes of data, but its shape and type need 8", npy(good, "123456789"))
  bad("a dimension of the shape is too large", npy(head("'<i4'", "(99999999999999999999,)")))
  bad("its shape is too large", npy(head("'<i4'", "(9000000000000000000,)")))
  bad("its shape is too large", npy(head("'<i4'", "(4000000000, 4000000000, 0)")))
  bad("12 bytes of data, but its shape and type need 400000000000000", npy(head("'<i4'", "(100000000000000,)"), "123456789012"))
  bad("the shape has more than 8 dimensions", npy(head("'<i4'", "(1,1,1,1,1,1,1,1,1)")))
  bad("header: a dimension of the shape was expected", npy(head("'<i4'", "(-1,)")))
  bad("type '<c8' is not one", npy(head("'<c8'", "(1,)")))
  bad("type '<i3' is not one", npy(head("'<i3'", "(1,)")))
  bad("type '|O' is not one", npy(head("'|O'", "(1,)")))
  bad("type '<f99999999999999999999' is not one", npy(head("'<f99999999999999999999'", "(1,)")))
  bad("structured types of several fields", npy(head("[('a', '<i4'), ('b', '<i4')]", "(1,)")))
  bad("field 'x' of type '<u2' names no dtype", npy(head("[('x', '<u2')]", "(1,)")))
  bad("field 'bfloat16' of type '<u4' names no dtype", npy(head("[('bfloat16', '<u4')]", "(1,)")))
  bad("header: key 'x' is unknown or given twice", npy("{'x': 1}"))
  bad("header: key 'descr' is unknown or given twice", npy("{'descr': '<i4', 'descr': '<i4'}"))
  bad("header: 'descr', 'fortran_order' and 'shape' must all be there", npy("{'descr': '<i4'}"))
  bad("header: text after its end", npy(good .. " x"))
  bad("fortran_order is not True or False", npy("{'fortran_order': 1}"))
  bad("header: a string is too long or has an unexpected character", npy("{'descr"))
  bad("header: '{' was expected at byte 0", npy("[]"))
  bad("element 1 of type bool is 2", npy(head("'|b1'", "(2,)"), "\1\2"))
  local whole = npy(good, "12345678")
  for n = 0, #whole - 1 do eq(pcall(load, whole:sub(1, n)), false, "cut at " .. n) end
  for i = 1, #whole - 8 do -- every byte of the header changed: an error or a tensor, no crash
    for _, c in ipairs {0, 39, 40, 57, 255} do
      pcall(load, whole:sub(1, i - 1) .. string.char(c) .. whole:sub(i + 1))
    end
  end
end)

case("files that cannot be opened or written", function()
  local x, message = soma.load_npy("/nonexistent/x.npy")
  eq(x, nil) eq(message, "cannot read '/nonexistent/x.npy': No such file or directory")
  local ok
  ok, message = soma.ones(1):save_npy("/nonexistent/x.npy")
  eq(ok, nil) eq(message, "cannot write '/nonexistent/x.npy': No such file or directory")
  raises("/tmp", soma.load_npy, "/tmp")
  eq(soma.ones(1):save_npy("/tmp"), nil)
  eq(soma.ones(1):save_npy("/dev/null"), true)
  local f = io.open("/dev/full", "w")
  if f then
    f:close()
    eq(select(2, soma.ones(100000):save_npy("/dev/full")):match("^cannot write"), "cannot write")
  end
end)

t.finish()
