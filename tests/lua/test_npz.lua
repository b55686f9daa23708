-- .npz archives: those that NumPy wrote (tests/data/npz/make.py), ours, and damaged ones.
local soma = require "soma"
local t = require "harness"
local zip = require "zip"
local case, eq, raises, fails = t.case, t.eq, t.raises, t.fails

local dir = "tests/data/npz/"
local function names_of(tensors)
  local list = {}
  for name in pairs(tensors) do list[#list + 1] = name end
  table.sort(list)
  return list
end
local function sorted(list) table.sort(list) return list end

case("archives of NumPy", function()
  for _, file in ipairs {"stored", "deflated"} do
    local x = assert(soma.load_npz(dir .. file .. ".npz"))
    eq(x.f:tolist(), {{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}}, file) eq(x.f.dtype, "float32")
    eq(x.i:tolist(), {-2, 3}) eq(x.i.dtype, "int32")
    eq(x.named:tolist(), {1.0, -3.0}) eq(x.named.dtype, "bfloat16")
    eq(x.s:get(), 2.5) eq(x.s.dtype, "float16") eq(x.s.ndim, 0)
    eq(x.e.shape, {0, 3}) eq(x.e.dtype, "int8")
    eq(x["b/\u{e9}"]:tolist(), {true, false})
    local names = {"b/\u{e9}", "e", "f", "i", "named", "s"}
    if file == "deflated" then
      eq(x.zeros.shape, {100000}) eq(x.zeros:any(), false)
      names[#names + 1] = "zeros"
    end
    eq(names_of(x), names)
    eq(sorted(soma.npz_names(dir .. file .. ".npz")), names)
  end
  eq(soma.npz_names(dir .. "nothing.npz"), {})
  eq(next(soma.load_npz(dir .. "nothing.npz")), nil)
  eq(soma.load_npz(dir .. "zip64.npz").x:tolist(), {1, 2, 3})
end)

case("some of the tensors, types of raw bits, devices", function()
  local some = soma.load_npz(dir .. "stored.npz", {names = {"s", "i"}})
  eq(names_of(some), {"i", "s"})
  eq(names_of(soma.load_npz(dir .. "stored.npz", {names = {}})), {})
  eq(soma.load_npz(dir .. "text.npz", {names = {"x"}}).x:tolist(), {1, 2, 3})
  fails(dir .. "stored.npz: there is no tensor 'q'; it has: f, i, named, s, e, b/\u{e9}", soma.load_npz,
    dir .. "stored.npz", {names = {"s", "q"}})
  fails("load_npz: option 'names' must be a sequence of strings, not string", soma.load_npz, dir .. "stored.npz", {names = "s"})
  fails("load_npz: option 'names' must be a sequence of strings; entry 1 is number", soma.load_npz,
    dir .. "stored.npz", {names = {1}})
  raises("unknown option 'name' (did you mean 'names'?)", soma.load_npz, dir .. "stored.npz", {name = {}})
  local path = t.temp(zip.make {{name = "v.npy", data = zip.npy("'<V2'", "(1,)", "\x80\x3f")},
    {name = "d.npy", data = zip.npy("'<f8'", "(1,)", string.pack("<d", 0.1))}})
  fails(path .. ": member 'v.npy': its type has no name: give {dtype = ...}", soma.load_npz, path)
  eq(soma.load_npz(path, {names = {"v"}, dtype = "bfloat16"}).v:tolist(), {1.0})
  local both = soma.load_npz(path, {dtype = {v = "bfloat16", d = "float32"}})
  eq(both.v:tolist(), {1.0}) eq(both.d:tolist(), {0x1.99999ap-4})
  fails("load_npz: option 'dtype' must be a string, not number", soma.load_npz, path, {dtype = {v = 3}})
  local core <close> = soma.core {device = "neuron:5"}
  eq(soma.load_npz(dir .. "stored.npz", {names = {"i"}, device = "neuron:5"}).i.device, "neuron:5")
end)

case("every dtype comes back, stored and deflated", function()
  for _, compress in ipairs {false, true} do
    local all, path = {}, t.temp()
    for _, dtype in ipairs(soma.dtypes) do
      all[dtype] = soma.frombytes(string.rep("\1\0\1\0\1\0\1\0", 60), dtype):reshape({2, -1})
    end
    all.turned = soma.arange(6):reshape({2, 3}):transpose()
    all.scalar = soma.tensor(2.5)
    all.empty = soma.zeros({3, 0})
    eq(soma.save_npz(path, all, {compress = compress}), true)
    local back = soma.load_npz(path)
    eq(names_of(back), names_of(all))
    for name, x in pairs(all) do
      eq(back[name].dtype, x.dtype) eq(back[name].shape, x.shape, name)
      eq(select(2, soma.equal(back[name], x)), nil, name)
    end
    eq(#t.read(path) < 10000, compress)
  end
end)

case("equal tensors, equal files", function()
  local path, again = t.temp(), t.temp()
  local x = {}
  for i = 1, 50 do x["t" .. i] = soma.full(3, i) end
  soma.save_npz(path, x)
  local y = {}
  for i = 50, 1, -1 do y["t" .. i] = soma.full(3, i) end
  soma.save_npz(again, y)
  eq(t.read(path) == t.read(again), true)
  eq(soma.npz_names(path)[2], "t10")
  -- the bytes of a member are those of a .npy file, as they are
  local file = t.temp()
  x.t7:save_npy(file)
  eq(t.read(path):find(t.read(file), 1, true) ~= nil, true)
end)

case("NumPy reads what we write", function()
  local python
  for _, p in ipairs {"python3", "/usr/bin/python3"} do
    if os.execute(p .. " -c 'import numpy' 2>/dev/null") then python = python or p end
  end
  if not python then return end -- the stored files are checked anyway
  local path, script = t.temp(), t.temp([[
import sys, numpy
z = numpy.load(sys.argv[1])
print(z["a"].tolist(), z["a"].dtype, z["b"].dtype, z["b"].tolist(), z["c\u00e9"].shape, z["d"].tolist())
]])
  for _, compress in ipairs {false, true} do
    soma.save_npz(path, {a = soma.arange(6):reshape({2, 3}):transpose(), b = soma.full(2, -3, "bfloat16"),
      ["c\u{e9}"] = soma.zeros({0, 2}), d = soma.tensor({true, false})}, {compress = compress})
    local p = assert(io.popen("PYTHONIOENCODING=utf8 " .. python .. " " .. script .. " " .. path .. " 2>&1"))
    local said = p:read("a")
    p:close()
    eq(said, "[[0, 3], [1, 4], [2, 5]] int32 [('bfloat16', '<u2')] [(49216,), (49216,)] (0, 2) [True, False]\n")
  end
end)

local x = zip.npy("'<i2'", "(3,)", "\1\0\2\0\3\0")
local function member(change)
  local m = {name = "x.npy", data = x}
  for k, v in pairs(change) do m[k] = v end
  return m
end

case("what is refused, and why", function()
  local function bad(text, content)
    local path = t.temp(content)
    fails(path .. ": not a valid .npz file: " .. text, soma.load_npz, path)
  end
  eq(soma.load_npz(t.temp(zip.make {member {}})).x:tolist(), {1, 2, 3})
  bad("Not a zip archive", "")
  bad("Not a zip archive", "junk")
  bad("Not a zip archive", x)
  bad("Not a zip archive", zip.make {member {}}:sub(1, -2))
  bad("Zip archive inconsistent", zip.make({member {}}, 2))
  bad("Zip archive inconsistent", (zip.make {member {}}:gsub("x.npy", "y.npy", 1)))
  bad("member 'x.npy': compression method 1 is neither stored (0) nor deflated (8)", zip.make {member {method = 1}})
  bad("member 'x.npy' is encrypted", zip.make {member {flags = 1, data = ("k"):rep(12) .. x, size = #x}})
  bad("member 'x.npy': 16 bytes stored cannot be 17", zip.make {member {data = ("a"):rep(16), size = 17}})
  bad("member 'x.npy': 10 bytes deflated cannot be 4294967294",
    zip.make {member {method = 8, data = ("a"):rep(10), size = 4294967294}})
  bad("member 'readme' is not a .npy file: its name does not end in .npy", zip.make {member {}, member {name = "readme"}})
  bad("member '.npy' is not a .npy file: its name does not end in .npy", zip.make {member {name = ".npy"}})
  bad("two members have one name", t.read(dir .. "twice.npz"))
  -- one name in two encodings
  bad("two members have one name", zip.make {member {name = "\u{e9}.npy", flags = 2048}, member {name = "\x82.npy"}})
  bad("member 'x.npy': compression method 12 is neither stored (0) nor deflated (8)", t.read(dir .. "bzip2.npz"))
  bad("member 'x.npy': compression method 14 is neither stored (0) nor deflated (8)", t.read(dir .. "lzma.npz"))
  local folder = t.temp()
  os.remove(folder)
  os.execute("mkdir " .. folder)
  fails(folder .. ": an archive must be a regular file", soma.load_npz, folder)
  os.execute("rmdir " .. folder)
end)

case("members that do not hold what they say", function()
  local function bad(text, content)
    local path = t.temp(content)
    fails(path .. ": member 'x.npy': " .. text, soma.load_npz, path)
  end
  local npy = "not a valid .npy file: "
  bad(npy .. "it does not start with the .npy magic", zip.make {member {data = "abc"}})
  bad(npy .. "it does not start with the .npy magic", zip.make {member {data = ""}})
  bad(npy .. "5 bytes of data, but its shape and type need 6", zip.make {member {data = x:sub(1, -2)}})
  bad(npy .. "7 bytes of data, but its shape and type need 6", zip.make {member {data = x .. "a"}})
  bad(npy .. "6 bytes of data, but its shape and type need 2000000000000",
    zip.make {member {data = zip.npy("'<i2'", "(1000000000000,)", "\1\0\2\0\3\0")}})
  bad(npy .. "type '|O' is not one that this reader knows", zip.make {member {data = zip.npy("'|O'", "(1,)", "abcdefgh")}})
  bad("it cannot be unpacked: CRC error", zip.make {member {crc = 5}})
  bad("it cannot be unpacked: Zlib error: data error", zip.make {member {method = 8, data = "\7" .. x}})
  -- a deflated stream of fewer bytes than declared: a stored block of x, last one
  local block = "\1" .. string.pack("<I2I2", #x, ~#x & 0xffff) .. x
  eq(soma.load_npz(t.temp(zip.make {member {method = 8, data = block, size = #x, crc = zip.crc(x)}})).x:tolist(), {1, 2, 3})
  bad(npy .. "7 bytes of data, but its shape and type need 6",
    zip.make {member {method = 8, data = block, size = #x + 1, crc = zip.crc(x)}})
  local longer = zip.npy("'<i2'", "(4,)", "\1\0\2\0\3\0")
  block = "\1" .. string.pack("<I2I2", #longer, ~#longer & 0xffff) .. longer
  bad(npy .. "it ends within its data",
    zip.make {member {method = 8, data = block, size = #longer + 2, crc = zip.crc(longer)}})
end)

-- Many members on the same packed bytes: the sum of their sizes is more than the file.
case("overlapping members", function()
  local data = x .. ("\0"):rep(1000)
  local members = {}
  for i = 1, 100 do members[i] = {name = "x" .. i .. ".npy", data = "", packed = #data, size = #data, crc = zip.crc(data), at = 0} end
  members[1].data = data
  local path = t.temp(zip.make(members))
  raises(path .. ": not a valid .npz file: ", soma.load_npz, path)
  collectgarbage()
end)

case("files that cannot be opened or written", function()
  local none, message = soma.load_npz "/nowhere/x.npz"
  eq(none, nil) eq(message, "cannot read '/nowhere/x.npz': No such file or directory")
  none, message = soma.npz_names "/nowhere/x.npz"
  eq(none, nil) eq(message, "cannot read '/nowhere/x.npz': No such file or directory")
  none, message = soma.save_npz("/nowhere/x.npz", {a = soma.ones(1)})
  eq(none, nil) eq(message, "cannot write '/nowhere/x.npz': No such file or directory")
  none, message = soma.save_npz("/dev/null", {a = soma.ones(1)})
  eq(none, nil) eq(message, "cannot write '/dev/null': an archive must be a regular file")
end)

case("wrong arguments of save_npz", function()
  local path = t.temp("before")
  fails("save_npz: 'a': a tensor was expected, got number", soma.save_npz, path, {a = 1})
  fails("save_npz: a name of a tensor is number, not a string", soma.save_npz, path, {soma.ones(1)})
  fails("save_npz: a name of a tensor is empty or has a zero byte", soma.save_npz, path, {[""] = soma.ones(1)})
  fails("save_npz: a name of a tensor is empty or has a zero byte", soma.save_npz, path, {["a\0b"] = soma.ones(1)})
  raises("unknown option 'compres' (did you mean 'compress'?)", soma.save_npz, path, {}, {compres = true})
  local core <close> = soma.core {device = "neuron:5"}
  fails("save_npz: 'a': a tensor was expected, got tensor on a device: use t:to \"cpu\"", soma.save_npz, path,
    {a = soma.ones(1, "int8", {device = "neuron:5"})})
  eq(t.read(path), "before")
  local none, message = soma.save_npz(path, {["\xff"] = soma.ones(1)})
  eq(none, nil) eq(message, "cannot write '" .. path .. "': Invalid argument")
  eq(t.read(path), "before")
end)

case("nothing half-written stays behind", function()
  local folder = t.temp()
  os.remove(folder)
  os.execute("mkdir " .. folder)
  local path = folder .. "/x.npz"
  soma.save_npz(path, {a = soma.ones(1)})
  local before = t.read(path)
  for _, compress in ipairs {"false", "true"} do
    local script = t.temp("local soma = require 'soma'\nlocal x = soma.uniform(1 << 20, 'uint8', {seed = 1, low = 0, high = 255})\n" ..
      "print(soma.save_npz('" .. path .. "', {x = x}, {compress = " .. compress .. "}))\n")
    local p = assert(io.popen("trap '' XFSZ; ulimit -f 64; lua5.4 " .. script .. " 2>&1"))
    local said = p:read("a")
    p:close()
    eq(said, "nil\tcannot write '" .. path .. "': File too large\n")
    p = assert(io.popen("ls -A " .. folder))
    eq(p:read("a"), "x.npz\n")
    p:close()
    eq(t.read(path), before)
  end
  os.execute("rm -r " .. folder)
end)

t.finish()
