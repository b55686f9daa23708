-- astype: the machine's conversions.
local soma = require "soma"
local t = require "harness"
local case, eq, raises = t.case, t.eq, t.raises
local inf, nan = math.huge, 0 / 0

local function to(values, from, dtype, options)
  return soma.tensor(values, from):astype(dtype, options):tolist()
end

case("narrow floats", function()
  eq(to({1.00390625, 1.01171875, 3.14159, -2.5, 65504, 1e-40}, "float32", "bfloat16"),
    {1.0, 1.015625, 3.140625, -2.5, 65536.0, 0x1p-133})
  eq(to({3.14159, 65504, 65520, 1e-8, 6e-8}, "float32", "float16"),
    {3.140625, 65504.0, inf, 0.0, 0x1p-24})
  eq(to({240, 247.9, 248, 1e9, nan}, "float32", "float8_e4m3"), {240.0, 240.0, inf, inf, nan})
  eq(to({448, 464, 465, -1e9}, "float32", "float8_e4m3fn"), {448.0, 448.0, nan, nan})
  eq(to({448, 465, -1e9, nan}, "float32", "float8_e4m3fn", {saturate = true}), {448.0, 448.0, -448.0, nan})
  eq(to({57344, 1e6}, "float32", "float8_e5m2"), {57344.0, inf})
  eq(to({15.5, 16}, "float32", "float8_e3m4"), {15.5, inf})
  eq(to({1, 3, 3.1, 6, 0.25}, "float32", "float8_e8m0fnu"), {1.0, 2.0, 4.0, 8.0, 0.25})
  eq(soma.tensor({1 + 2^-11, 1 + 2^-10}):astype("tfloat32"):tolist(), {1.0, 1 + 2^-10})
end)

case("integers saturate and round to even", function()
  eq(to({127.5, 128, -129, 2.5, 3.5, nan, inf}, "float32", "int8"), {127, 127, -128, 2, 4, 0, 127})
  eq(to({-1, 300}, "float32", "uint8"), {0, 255})
  eq(to({1e20, -1e20, nan}, "float32", "int64"), {math.maxinteger, math.mininteger, 0})
  eq(to({16777217}, "int32", "float32"), {16777216.0})
  eq(to({16777217}, "int32", "int64"), {16777217})
  eq(to({math.maxinteger, -5}, "int64", "int32"), {2147483647, -5})
  eq(to({-5, 5}, "int64", "uint64"), {0, 5})
  eq(to({0, 2, -1}, "int32", "bool"), {false, true, true})
  -- 2^60 + 2^36 + 1 is above a float32 tie that a detour by double would create
  eq(to({(1 << 60) + (1 << 36) + 1}, "int64", "float32"), {0x1.000002p60})
end)

case("equal types keep their bits", function()
  local x = soma.tensor({0x7fc01234, 0xffffffff}, "uint32"):view("float32")
  eq(x:astype("float32"):view("uint32"):tolist(), {0x7fc01234, 0xffffffff})
  eq(x:astype("bfloat16"):view("uint16"):tolist(), {0x7fc0, 0x7fc0})
end)

case("packed types hold four of the last dimension", function()
  local x = soma.tensor({{0, 1, -6, 0.5, 2, 3, 4, 100}})
  local p = x:astype("float4_e2m1fn_x4")
  eq(p.shape, {1, 2})
  eq(p:tolist(), {{0x1 << 12 | 0xf << 8 | 0x2 << 4, 0x7 << 12 | 0x6 << 8 | 0x5 << 4 | 0x4}})
  eq(p:astype("float32"):tolist(), {{0.0, 1.0, -6.0, 0.5, 2.0, 3.0, 4.0, 6.0}})
  local q = soma.tensor({1, -2, 448, 0.5}):astype("float8_e4m3fn_x4")
  eq(q:view("float8_e4m3fn"):tolist(), {1.0, -2.0, 448.0, 0.5})
  raises("not a multiple of 4", function() soma.ones(3):astype("float4_e2m1fn_x4") end)
  raises("go through float32", function() p:astype("float8_e5m2_x4") end)
  raises("unknown option", function() x:astype("int8", {clamp = true}) end)
end)

t.finish()
