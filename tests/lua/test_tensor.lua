-- Tensors: making, indexing, views, printing, and what they refuse.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises

case("properties", function()
  local x = soma.zeros({2, 3}, "bfloat16")
  eq(x.shape, {2, 3}) eq(x.dtype, "bfloat16") eq(x.ndim, 2) eq(x.size, 6) eq(x.nbytes, 12)
  eq(x.device, "cpu") eq(#x, 2)
  eq(soma.zeros(4).shape, {4}) eq(soma.zeros({}).ndim, 0) eq(soma.zeros({0, 3}).size, 0)
end)

case("every dtype holds its values", function()
  local ranges = {uint8 = {0, 255}, int8 = {-128, 127}, uint16 = {0, 65535}, int16 = {-32768, 32767},
    uint32 = {0, 4294967295}, int32 = {-2147483648, 2147483647},
    int64 = {math.mininteger, math.maxinteger}, uint64 = {0, math.maxinteger}}
  for dtype, r in pairs(ranges) do
    eq(soma.tensor(r, dtype):tolist(), r, dtype)
  end
  for _, dtype in ipairs {"int8", "uint8", "int16", "uint16", "int32", "uint32"} do
    raises(dtype .. " cannot hold", soma.full, 1, ranges[dtype][2] + 1, dtype)
    raises(dtype .. " cannot hold", soma.full, 1, ranges[dtype][1] - 1, dtype)
  end
  raises("uint64 cannot hold -1", soma.full, 1, -1, "uint64")
  eq(#soma.dtypes, 21)
  for _, dtype in ipairs(soma.dtypes) do eq(soma.zeros({2}, dtype):get(1) == 0 or dtype == "bool"
    or dtype == "float8_e8m0fnu", true, dtype) end
end)

case("elements are rounded or refused", function()
  eq(soma.full(1, 1.00390625, "bfloat16"):get(0), 1.0)
  eq(soma.full(1, 1.01171875, "bfloat16"):get(0), 1.015625)
  eq(soma.full(1, 65520, "float16"):get(0), math.huge)
  eq(soma.full(1, 3, "float32"):get(0), 3.0)
  eq(soma.full(1, 3.0, "int8"):get(0), 3)
  eq(soma.full(1, true, "bool"):get(0), true)
  raises("int8 has no element 3.5", soma.full, 1, 3.5, "int8")
  raises("int8 has no element", soma.full, 1, 0/0, "int8")
  raises("must be a number, not string", soma.full, 1, "3", "int8")
  raises("bool cannot hold", soma.full, 1, 2, "bool")
end)

case("one rounding from double", function()
  -- 1 + 2^-8 + 2^-40 lies above a bfloat16 tie that fp32 rounding would create
  eq(soma.full(1, 1 + 2^-8 + 2^-40, "bfloat16"):get(0), 1 + 2^-7)
  eq(soma.full(1, 1 + 2^-8 - 2^-40, "bfloat16"):get(0), 1.0)
  eq(soma.full(1, 1 + 2^-11 + 2^-50, "float16"):get(0), 1 + 2^-10)
  eq(soma.full(1, 1 + 2^-24, "float32"):get(0), 1.0)
  eq(soma.full(1, 1 + 2^-24 + 2^-52, "float32"):get(0), 1 + 2^-23)
end)

case("nested tables", function()
  eq(soma.tensor({{1, 2}, {3, 4}}):tolist(), {{1.0, 2.0}, {3.0, 4.0}})
  eq(soma.tensor({1, 2, 3, 4, 5, 6}, "int32", {2, 3}):tolist(), {{1, 2, 3}, {4, 5, 6}})
  eq(soma.tensor({true, false}).dtype, "bool")
  eq(soma.tensor(2.5).ndim, 0) eq(soma.tensor(2.5):get(), 2.5)
  eq(soma.tensor({}).shape, {0})
  raises("ragged", soma.tensor, {{1, 2}, {3}})
  raises("a table of 2 was expected", soma.tensor, {{1, 2}, 3})
  raises("does not hold the 3 values", soma.tensor, {1, 2, 3}, "int32", {2, 2})
  local loop = {} loop[1] = loop
  raises("deeper than 8", soma.tensor, loop)
end)

case("indexing", function()
  local x = soma.arange(12):reshape {3, 4}
  eq(x:get(2, 3), 11) eq(x[1]:tolist(), {4, 5, 6, 7}) eq(x[1][2], 6) eq(x[{2, 0}], 8)
  x:set(0, 1, 99) x[{0, 2}] = -1 x[2][3] = 5
  eq(x:tolist(), {{0, 99, -1, 3}, {4, 5, 6, 7}, {8, 9, 10, 5}})
  raises("index 3 is outside dimension 0 of int32[3, 4] (0 to 2)", x.get, x, 3, 0)
  raises("int32[12] has no element {4, 8}; for 8 rows from row 4 on write " ..
    "t:slice {4, 12}", function() return soma.arange(12)[{4, 8}] end)
  local tall = soma.arange(256):reshape {128, 2}
  raises("for 64 rows from row 64 on write t:slice {64, 128}", function() return tall[{64, 64}] end)
  raises("for 128 rows from row 0 on write t:slice {0, 128}", function() tall[{0, 128}] = 1 end)
  raises("index 2 is outside dimension 1", function() return tall[{127, 2}] end)
  eq(tall[{127, 1}], 255)
  raises("index -1 is outside", x.get, x, -1, 0)
  raises("1 indices for int32[3, 4], which has 2 dimensions", x.get, x, 1)
  raises("not an integer", x.get, x, 0.5, 0)
  raises("no field or method 'sums'", function() return x.sums end)
  raises("fields cannot be set", function() x.foo = 1 end)
  raises("no index of type boolean", function() return x[true] end)
end)

case("slices share memory", function()
  local x = soma.arange(24):reshape {4, 6}
  eq(x:slice({1, 3}, {0, 6, 2}):tolist(), {{6, 8, 10}, {12, 14, 16}})
  eq(x:slice {{1, 3}, {0, 6, 2}}:tolist(), {{6, 8, 10}, {12, 14, 16}})
  eq(x:slice({}, 2):tolist(), {2, 8, 14, 20}) eq(x:slice(3):tolist(), {18, 19, 20, 21, 22, 23})
  eq(x:slice {2, 4}.shape, {2, 6}) eq(x:slice({2, 2}).shape, {0, 6})
  eq(x:slice({4, 4}, {6, 6}).size, 0)
  local v = x:slice({0, 2}, {0, 2})
  v:fill(-1)
  eq(x:slice({0, 3}, {0, 3}):tolist(), {{-1, -1, 2}, {-1, -1, 8}, {12, 13, 14}})
  x:slice({0, 2}, {0, 2}):assign(soma.tensor({{1, 2}}, "int32"))
  eq(v:tolist(), {{1, 2}, {1, 2}})
  x:slice({}, {1, 6}):assign(x:slice({}, {0, 5}))
  eq(x[0]:tolist(), {1, 1, 2, 2, 3, 4})
  raises("0 <= lo <= hi <= 4", x.slice, x, {0, 5})
  raises("0 <= lo <= hi", x.slice, x, {3, 1})
  raises("step >= 1", x.slice, x, {0, 4, 0})
  raises("3 ranges for int32[4, 6]", x.slice, x, {}, {}, {})
end)

case("reshape, transpose, view", function()
  local x = soma.arange(6):reshape {2, 3}
  eq(x:transpose():tolist(), {{0, 3}, {1, 4}, {2, 5}})
  eq(x:reshape({3, -1}):tolist(), {{0, 1}, {2, 3}, {4, 5}})
  eq(x:transpose():reshape({6}):tolist(), {0, 3, 1, 4, 2, 5})
  eq(soma.zeros({2, 3, 4}):transpose(2, 0, 1).shape, {4, 2, 3})
  eq(soma.tensor({1.0}):view("uint32"):get(0), 0x3f800000)
  eq(soma.tensor({1, 2}, "uint32"):view("uint16"):tolist(), {1, 0, 2, 0})
  eq(x:transpose():bytes(), string.pack("<i4i4i4i4i4i4", 0, 3, 1, 4, 2, 5))
  raises("has 6 elements", x.reshape, x, {4})
  raises("has 6 elements", x.reshape, x, {4, -1})
  raises("more than one dimension is -1", x.reshape, x, {-1, -1})
  local none = soma.zeros({0})
  eq(none:reshape({0, 5}).shape, {0, 5})
  raises("has 0 elements", none.reshape, none, {1 << 40, 1 << 40})
  raises("has 0 elements", none.reshape, none, {1 << 32, 1 << 32, 0, 1 << 32})
  raises("given twice", x.transpose, x, 0, 0)
  raises("not a dense multiple", x:transpose().view, x:transpose(), "int8")
end)

case("bytes", function()
  eq(soma.frombytes("\0\0\128\63", "float32"):tolist(), {1.0})
  eq(soma.frombytes("\1\2\3\4", "int8", {2, 2}):tolist(), {{1, 2}, {3, 4}})
  eq(soma.frombytes("\7\0", "bool"):tolist(), {true, false})
  eq(soma.frombytes("\7\0", "bool"):bytes(), "\1\0")
  raises("does not have 3 bytes", soma.frombytes, "abc", "int16")
  raises("does not have 3 bytes", soma.frombytes, "abc", "int8", {4})
end)

case("arange, concat, copy", function()
  eq(soma.arange(1, 10, 4):tolist(), {1, 5, 9}) eq(soma.arange(3).dtype, "int32")
  eq(soma.arange(0, 1, 0.25).dtype, "float32") eq(soma.arange(5, 0, -2):tolist(), {5, 3, 1})
  eq(soma.arange(2, 2).size, 0) eq(soma.arange(3, "uint8").dtype, "uint8")
  raises("not a finite range", soma.arange, 0, 1, 0)
  raises("not a finite range", soma.arange, 0, math.huge)
  raises("not a finite range", soma.arange, 0, 0/0)
  local a, b = soma.arange(4):reshape {2, 2}, soma.full({2, 1}, 7, "int32")
  eq(soma.concat({a, b}, 1):tolist(), {{0, 1, 7}, {2, 3, 7}})
  eq(soma.concat({a, a}).shape, {4, 2})
  raises("does not join int32[2, 2]", soma.concat, {a, b})
  raises("element 2 is not a tensor", soma.concat, {a, 1})
  raises("no tensors", soma.concat, {})
  local c = a:copy() c:fill(0)
  eq(a:get(1, 1), 3)
end)

case("printing", function()
  eq(tostring(soma.tensor({{1, 2.5}, {-3, 4}})), "float32[2, 2]\n[[  1, 2.5],\n [ -3,   4]]")
  eq(tostring(soma.tensor({true, false})), "bool[2] [ true, false]")
  eq(tostring(soma.tensor(7)), "float32[] 7")
  eq(tostring(soma.tensor({-1}, "int64"):view("uint64")), "uint64[1] [18446744073709551615]")
  local long = tostring(soma.arange(2000))
  eq(long, "int32[2000] [   0,    1,    2, ..., 1997, 1998, 1999]")
end)

case("bad sizes and arguments never crash", function()
  local huge = math.maxinteger
  raises("too large", soma.zeros, {huge, huge})
  raises("too large", soma.zeros, {1 << 62})
  raises("too large", soma.zeros, {0, huge, huge})
  raises("not an integer of at least 0", soma.zeros, {-1})
  raises("not an integer of at least 0", soma.zeros, {2, 1.5})
  raises("not an integer of at least 0", soma.zeros, {"2"})
  raises("negative", soma.zeros, -1)
  raises("more than 8 dimensions", soma.zeros, {1, 1, 1, 1, 1, 1, 1, 1, 1})
  raises("did you mean 'float32'", soma.zeros, 1, "flaot32")
  raises("is not a dtype", soma.zeros, 1, "double")
  raises("'gpu' is not a device; there are: cpu, neuron:0", soma.zeros, 1, "float32", {device = "gpu"})
  raises("unknown option 'devise' (did you mean 'device'?)", soma.zeros, 1, "float32", {devise = 1})
  raises("'gpu' is not a device", function() soma.zeros(1):to("gpu") end)
  for name, f in pairs(soma) do
    if type(f) == "function" then
      for _, bad in ipairs {{}, {1}, {"x"}, {{}}, {{{}}, {}}, {print}, {huge, huge}, {0/0}, {-1, -1}} do
        pcall(f, table.unpack(bad))
      end
    end
  end
  local x = soma.zeros({2, 2})
  for _, name in ipairs {"get", "set", "slice", "reshape", "transpose", "view", "astype", "fill",
    "assign", "sum", "max", "matmul", "save_npy", "add", "pow", "to"} do
    for _, bad in ipairs {{}, {1}, {"x"}, {{}}, {{{}}, {}}, {print}, {huge, huge}, {0/0}, {-1, -1},
      {x}, {x, x}, {{huge}}, {{0, huge}}, {{math.mininteger}}} do
      pcall(x[name], x, table.unpack(bad))
      pcall(x[name], table.unpack(bad))
    end
  end
  os.remove("x") -- save_npy("x") is a good call
end)

case("errors carry the caller's line", function()
  local line = debug.getinfo(1, "l").currentline + 1
  local ok, message = pcall(function() soma.zeros(-1) end)
  eq(ok, false)
  eq(message:match("test_tensor.lua:(%d+):"), tostring(line))
end)

t.finish()
