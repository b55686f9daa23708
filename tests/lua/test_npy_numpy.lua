-- .npy files that NumPy wrote (tests/data/npy/make.py), and what is left behind by failures.
local soma = require "soma"
local t = require "harness"
local case, eq, fails = t.case, t.eq, t.fails
local inf, nan = math.huge, 0 / 0

local dir = "tests/data/npy/"
local function load(name, options) return assert(soma.load_npy(dir .. name .. ".npy", options)) end

case("orders, endianness and versions give one tensor", function()
  local want, v = {}, -3
  for i = 1, 2 do
    want[i] = {}
    for j = 1, 3 do
      want[i][j] = {}
      for k = 1, 4 do want[i][j][k], v = v + 0.0, v + 0.5 end
    end
  end
  for _, name in ipairs {"c_order", "fortran_order", "big_endian", "big_endian_fortran", "version_1",
    "version_2", "version_3"} do
    local x = load(name)
    eq(x.dtype, "float32", name) eq(x.shape, {2, 3, 4}, name) eq(x:tolist(), want, name)
  end
end)

case("integers of every size and endianness", function()
  local want = {
    int8 = {-128, 127, 1}, uint8 = {0, 255, 1}, int16 = {-32768, 32767, 1}, uint16 = {0, 65535, 1},
    int32 = {-2147483648, 2147483647, 1}, uint32 = {0, 4294967295, 1},
    int64 = {math.mininteger, math.maxinteger, 1}, uint64 = {0, -1, 1}, -- uint64's largest, as bits
  }
  for name, values in pairs(want) do
    local x = load(name)
    eq(x.dtype, name) eq(x:tolist(), values, name)
    if name:sub(-1) ~= "8" then
      x = load(name .. "_big")
      eq(x.dtype, name) eq(x:tolist(), values, name .. " big")
    end
  end
end)

case("floats and booleans", function()
  eq(load "float16":tolist(), {1.5, -0.0, 65504.0, 0x1p-24, inf, nan})
  eq(load "float32":tolist(), {0x1.99999ap-4, -0.0, 0x1.ff933cp+127, 0x1p-149, -inf})
  eq(load "bool":tolist(), {{true, false}, {false, true}})
  eq(load("float64", {dtype = "float32"}):tolist(), {0x1.99999ap-4, 1 + 2^-23, -inf})
  eq(load("float64", {dtype = "bfloat16"}):tolist(), {0x1.9ap-4, 1.0, -inf})
end)

case("no dimensions, no elements, odd strides", function()
  local x = load "scalar"
  eq(x.ndim, 0) eq(x:get(), 2.5)
  x = load "empty"
  eq(x.shape, {0, 3}) eq(x.dtype, "int16") eq(x:tolist(), {})
  eq(load "strided":tolist(), {{9, 7, 5}, {19, 17, 15}})
end)

case("types that NumPy lacks", function()
  eq(load("bits", {dtype = "bfloat16"}):tolist(), {1.0, -3.0, inf})
  eq(load "bits".dtype, "uint16")
  eq(load("void", {dtype = "bfloat16"}):tolist(), {1.0, -3.0})
  local x = load "named"
  eq(x.dtype, "float8_e4m3") eq(x:tolist(), {1.0, -2.0})
end)

case("what is refused, and why", function()
  local function refused(name, text, options) fails(dir .. name .. ".npy: " .. text, load, name, options) end
  local other = "not a valid .npy file: type '%s' is not one that this reader knows"
  refused("complex", other:format "<c16")
  refused("text", other:format "<U3")
  refused("dates", other:format "<M8[D]")
  refused("longdouble", other:format "<f16")
  refused("object", other:format "|O")
  refused("record", "not a valid .npy file: structured types of several fields are not supported")
  refused("float64", 'holds float64, which the machine lacks: store it as float32, or load it with {dtype = "float32"}')
  refused("void", "its type has no name: give {dtype = ...}")
  refused("void", "holds void16, which cannot be read as float32: load it and use astype", {dtype = "float32"})
  refused("bits", "holds uint16, which cannot be read as int32: load it and use astype", {dtype = "int32"})
  refused("float32", "holds float32, which cannot be read as float16: load it and use astype", {dtype = "float16"})
  refused("bool", "holds bool8, which cannot be read as uint8: load it and use astype", {dtype = "uint8"})
end)

-- Damage to a file of NumPy's, each with the whole message.
case("damaged copies", function()
  local whole = t.read(dir .. "int16.npy") -- version 1.0, 118 bytes of header, 3 elements
  local header = whole:sub(11, 128)
  eq(#whole, 134)
  local path = t.temp()
  local function damaged(text, content)
    local f = assert(io.open(path, "wb"))
    f:write(content)
    f:close()
    fails(path .. ": not a valid .npy file: " .. text, soma.load_npy, path)
  end
  -- header, made as long as the one it replaces
  local function with(h) return whole:sub(1, 10) .. h .. (" "):rep(117 - #h) .. "\n" .. whole:sub(129) end
  local function descr(d) return with("{'descr': " .. d .. ", 'fortran_order': False, 'shape': (3,), }") end
  local function shape(s) return with("{'descr': '<i2', 'fortran_order': False, 'shape': " .. s .. ", }") end
  local function order(o) return with("{'descr': '<i2', 'fortran_order': " .. o .. ", 'shape': (3,), }") end

  damaged("it does not start with the .npy magic", "")
  damaged("it does not start with the .npy magic", whole:sub(1, 9))
  damaged("it does not start with the .npy magic", whole:sub(2))
  damaged("it does not start with the .npy magic", "\x92" .. whole:sub(2))
  damaged("version 0.0 is not 1.0, 2.0 or 3.0", whole:sub(1, 6) .. "\0" .. whole:sub(8))
  damaged("version 4.0 is not 1.0, 2.0 or 3.0", whole:sub(1, 6) .. "\4" .. whole:sub(8))
  damaged("version 1.1 is not 1.0, 2.0 or 3.0", whole:sub(1, 7) .. "\1" .. whole:sub(9))
  damaged("it ends within its header of 118 bytes", whole:sub(1, 127))
  damaged("it ends within its header of 65535 bytes", whole:sub(1, 8) .. "\xff\xff" .. whole:sub(11))
  damaged("a header of 1887764598 bytes (at most 65536)",
    "\x93NUMPY\2\0" .. string.pack("<I4", 1887764598) .. header)
  damaged("it ends within its header", "\x93NUMPY\3\0\4\0")
  damaged("5 bytes of data, but its shape and type need 6", whole:sub(1, 133))
  damaged("0 bytes of data, but its shape and type need 6", whole:sub(1, 128))
  damaged("7 bytes of data, but its shape and type need 6", whole .. "\0")
  damaged("header: '{' was expected at byte 118", with "")
  damaged("header: '{' was expected at byte 0", with "descr=<i2")
  damaged("header: a string was expected", with "{descr: '<i2'}")
  damaged("header: ':' was expected at byte 8", with "{'descr', '<i2'}")
  damaged("header: 'descr', 'fortran_order' and 'shape' must all be there", with "{'descr': '<i2', }")
  damaged("header: key 'order' is unknown or given twice", with "{'order': 'C'}")
  damaged("header: key 'descr' is unknown or given twice", with "{'descr': '<i2', 'descr': '<i2'}")
  damaged("header: a string is too long or has an unexpected character", with "{'descr")
  damaged("header: a string is too long or has an unexpected character", descr "'<i\\x32'")
  damaged("type '' is not one that this reader knows", descr "''")
  damaged("type 'i2' is not one that this reader knows", descr "'i2'")
  damaged("type '<i0' is not one that this reader knows", descr "'<i0'")
  damaged("type '<i-2' is not one that this reader knows", descr "'<i-2'")
  damaged("type '<i16' is not one that this reader knows", descr "'<i16'")
  damaged("type '<i2 ' is not one that this reader knows", descr "'<i2 '")
  damaged("type '<b2' is not one that this reader knows", descr "'<b2'")
  damaged("type '<f1' is not one that this reader knows", descr "'<f1'")
  damaged("header: a string was expected", descr "2")
  damaged("field 'double' of type '<u2' names no dtype of that size", descr "[('double', '<u2')]")
  damaged("field 'bfloat16' of type '<i2' names no dtype of that size", descr "[('bfloat16', '<i2')]")
  damaged("fortran_order is not True or False", order "0")
  damaged("fortran_order is not True or False", order "'False'")
  damaged("header: '(' was expected at byte 50", shape "3")
  damaged("header: a dimension of the shape was expected", shape "(-3,)")
  damaged("header: a dimension of the shape was expected", shape "(x,)")
  damaged("header: ')' was expected at byte 52", shape "(3.0,)")
  damaged("the shape has more than 8 dimensions", shape "(1,1,1,1,1,1,1,1,3)")
  damaged("a dimension of the shape is too large", shape "(9223372036854775808,)")
  damaged("its shape is too large", shape "(4294967296, 4294967296)")
  damaged("6 bytes of data, but its shape and type need 2199023255552", shape "(1099511627776,)")
  damaged("header: text after its end", with(header:match("^(.-})") .. " {}"))
end)

case("a failed save leaves nothing behind, and what was there", function()
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  local function listing()
    local p = assert(io.popen("LC_ALL=C ls -A " .. folder))
    local s = p:read("a")
    p:close()
    return s
  end
  local path = folder .. "/x.npy"
  eq(soma.ones(3):save_npy(path), true)
  eq(listing(), "x.npy\n")
  local before = t.read(path)
  -- the file is a link to a full device: in place, so the device's error comes out
  os.execute("ln -s /dev/full " .. folder .. "/full.npy")
  local ok, message = soma.ones(3):save_npy(folder .. "/full.npy")
  eq(ok, nil) eq(message, "cannot write '" .. folder .. "/full.npy': No space left on device")
  ok, message = soma.ones(100000):save_npy(folder .. "/full.npy")
  eq(ok, nil) eq(message, "cannot write '" .. folder .. "/full.npy': No space left on device")
  os.remove(folder .. "/full.npy")
  -- over a limit on file sizes, which only a child process may set
  local script = t.temp("local soma = require 'soma'\nprint(soma.zeros(1 << 20):save_npy('" .. path .. "'))\n")
  local p = assert(io.popen("trap '' XFSZ; ulimit -f 64; lua5.4 " .. script .. " 2>&1"))
  local said = p:read("a")
  p:close()
  eq(said, "nil\tcannot write '" .. path .. "': File too large\n")
  eq(listing(), "x.npy\n") eq(t.read(path), before)
  ok, message = soma.ones(3):save_npy(folder .. "/none/x.npy")
  eq(ok, nil) eq(message, "cannot write '" .. folder .. "/none/x.npy': No such file or directory")
  -- a link keeps pointing at its file
  os.execute("ln -s x.npy " .. folder .. "/link.npy")
  eq(soma.zeros(2):save_npy(folder .. "/link.npy"), true)
  eq(soma.load_npy(path):tolist(), {0.0, 0.0}) eq(listing(), "link.npy\nx.npy\n")
  os.execute("rm -r " .. folder)
end)

t.finish()
