-- Every conversion between dtypes, against a model written here from the formats' definitions: each
-- code's value, and each value's nearest code by search, in Lua's own double arithmetic.
local soma = require "soma"
local t = require "harness"
local case, eq = t.case, t.eq
local inf, nan = math.huge, 0 / 0

-- Exponent and mantissa bits, bias, code of the largest finite value, infinity's code (nil: none),
-- canonical NaN. tfloat32 and float32 are 32 bits wide, tfloat32 with 13 low bits of zero.
local floats = {
  float8_e3m4 = {3, 4, 3, 0x6f, 0x70, 0x78},
  float8_e4m3 = {4, 3, 7, 0x77, 0x78, 0x7c},
  float8_e4m3fn = {4, 3, 7, 0x7e, nil, 0x7f},
  float8_e5m2 = {5, 2, 15, 0x7b, 0x7c, 0x7e},
  float16 = {5, 10, 15, 0x7bff, 0x7c00, 0x7e00},
  bfloat16 = {8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0},
}
local ints = {
  uint8 = {0, 255}, int8 = {-128, 127}, uint16 = {0, 65535}, int16 = {-32768, 32767},
  uint32 = {0, 4294967295}, int32 = {-2147483648, 2147483647},
}

local function value(f, code)
  local e, m, bias, max, infinity = table.unpack(f, 1, 5)
  local sign = code >> (e + m) & 1 == 1 and -1.0 or 1.0
  code = code & (1 << e + m) - 1
  if infinity and code == infinity then return sign * inf end
  if code > max then return nan end
  local exponent, mantissa = code >> m, code & (1 << m) - 1
  if exponent == 0 then return sign * mantissa * 2.0 ^ (1 - bias - m) end
  return sign * (1 + mantissa * 2.0 ^ -m) * 2.0 ^ (exponent - bias)
end

local function bits(x, dtype) return x:view(dtype) end
local function unsigned(f) return f[1] + f[2] < 8 and "uint8" or "uint16" end

case("the value of every code of 8 and 16 bits", function()
  for name, f in pairs(floats) do
    local n = 1 << f[1] + f[2] + 1
    local codes = soma.arange(n):astype(unsigned(f))
    local got = codes:view(name):astype("float32"):tolist()
    for code = 0, n - 1 do eq(got[code + 1], value(f, code), name .. " " .. code) end
    local back = codes:view(name):tolist() -- elements as Lua numbers
    for code = 0, n - 1, 7 do eq(back[code + 1], value(f, code), name .. " element " .. code) end
  end
end)

case("float32 to each narrow float: the code, both neighbours of each boundary, and ties", function()
  local next_up = function(x) return string.unpack("<f", string.pack("<I4", string.unpack("<I4", string.pack("<f", x)) + 1)) end
  local next_down = function(x) return string.unpack("<f", string.pack("<I4", string.unpack("<I4", string.pack("<f", x)) - 1)) end
  for name, f in pairs(floats) do
    local max, sign = f[4], 1 << f[1] + f[2]
    local over = f[5] or f[6]
    local inputs, want, saturated = {}, {}, {}
    local function add(x, code, clamped)
      for _, s in ipairs {1.0, -1.0} do
        inputs[#inputs + 1] = s * x
        want[#want + 1] = s > 0 and code or code == f[6] and code or code | sign
        saturated[#saturated + 1] = s > 0 and (clamped or code) or (clamped or code) | sign
      end
    end
    local step = max > 300 and 1 + max // 4000 or 1
    for code = 0, max, step do
      local x = value(f, code)
      add(x, code)
      -- above the largest value the next code would be a step further
      local above = code < max and value(f, code + 1) or 2 * x - value(f, code - 1)
      local top = code < max and code + 1 or over
      local tie = x + (above - x) / 2
      -- the least bfloat16s are float32 subnormals: their tie is one too
      add(tie, code % 2 == 0 and code or top, code == max and max)
      add(next_down(tie), code)
      add(next_up(tie), top, code == max and max)
    end
    add(inf, over, max)
    local x = soma.tensor(inputs)
    local got = bits(x:astype(name), unsigned(f)):tolist()
    for i = 1, #inputs do eq(got[i], want[i], string.format("%s of %a", name, inputs[i])) end
    if name == "float8_e4m3fn" then
      got = bits(x:astype(name, {saturate = true}), "uint8"):tolist()
      for i = 1, #inputs do eq(got[i], saturated[i], string.format("saturated %a", inputs[i])) end
    end
    for _, s in ipairs {nan, -nan} do eq(bits(soma.tensor({s}):astype(name), unsigned(f)):get(0), f[6], name) end
  end
end)

case("tfloat32 and powers of two", function()
  local x = soma.tensor({1 + 2^-10, 1 + 2^-11, 1 + 3 * 2^-11, 1 + 2^-11 + 2^-23, -1 - 2^-11 - 2^-23, 2^-149, inf, nan})
  eq(x:astype("tfloat32"):tolist(), {1 + 2^-10, 1.0, 1 + 2^-9, 1 + 2^-10, -1 - 2^-10, 0.0, inf, nan})
  eq(soma.tensor({0x3f801fff}, "uint32"):view("tfloat32"):astype("float32"):tolist(), {1.0})
  local want = {}
  for code = 0, 254 do want[code + 1] = 2.0 ^ (code - 127) end
  want[256] = nan
  eq(soma.arange(256):astype("uint8"):view("float8_e8m0fnu"):astype("float32"):tolist(), want)
  -- to the nearest power of two, ties to the even code, which of 1.5 * 2^k is that of 2^k when k is odd
  eq(soma.tensor({1, 1.5, 3, 0.75, 1.4999, 0, -1, inf, 2^-130}):astype("float8_e8m0fnu"):tolist(),
    {1.0, 2.0, 2.0, 0.5, 1.0, 2^-127, nan, nan, 2^-127})
end)

local samples = {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 126.5, 127.5, 128.0, -128.5, -129.0, 254.5, 255.5, 256.0,
  32767.5, 32768.0, -32769.0, 65535.5, 65536.0, 8388607.5, 2147483520.0, 2147483648.0, -2147483648.0,
  4294967040.0, 4294967296.0, 1e20, -1e20, inf, -inf, nan}

local function nearest_int(x, lo, hi)
  if x ~= x then return 0 end
  if x <= lo then return lo elseif x >= hi then return hi end
  local floor = math.floor(x)
  local rest = x - floor
  if rest > 0.5 or rest == 0.5 and floor % 2 == 1 then floor = floor + 1 end
  return math.min(math.max(floor, lo), hi)
end

case("float32 to integers", function()
  local x = soma.tensor(samples)
  for name, r in pairs(ints) do
    local got = x:astype(name):tolist()
    for i, v in ipairs(samples) do
      -- hi as a float may round up: compare in integers
      eq(got[i], math.tointeger(nearest_int(v, r[1], r[2])), name .. " of " .. v)
    end
  end
  local wide = x:astype("int64"):tolist()
  for i, v in ipairs(samples) do
    if math.abs(v) < 2^60 then eq(wide[i], math.tointeger(nearest_int(v, -2.0^62, 2.0^62)), "int64 of " .. v) end
  end
  -- 1e19 is 9999999980506447872 in float32; uint64 elements are seen as signed
  eq(soma.tensor({1e20, -1e20, 1e19, nan}):astype("uint64"):tolist(), {-1, 0, -8446744093203103744, 0})
  eq(x:astype("bool"):tolist()[3], true) eq(x:astype("bool"):tolist()[2], false)
end)

case("every pair of types, through float32 where either is a float", function()
  local names = {}
  for _, d in ipairs(soma.dtypes) do
    if not d:find "_x4" then names[#names + 1] = d end
  end
  eq(#names, 18)
  for _, from in ipairs(names) do
    -- small values that every type has, zero and one among them; e8m0 has no zero
    local values = from == "bool" and {true, false} or from == "float8_e8m0fnu" and {1, 2, 4} or {0, 1, 2, 3, 4, 6, 8, 12}
    local x = soma.tensor(values, from)
    for _, to in ipairs(names) do
      if to ~= "float8_e8m0fnu" then
        local got = x:astype(to):tolist()
        for i, v in ipairs(values) do
          if from == "bool" then v = v and 1 or 0 end
          local g = got[i]
          if to == "bool" then eq(g, v ~= 0, from .. " to bool")
          else eq(g + 0.0, v + 0.0, from .. " to " .. to) end
        end
      end
    end
  end
  eq(soma.tensor({-1, 5}, "int32"):astype("uint8"):tolist(), {0, 5})
  eq(soma.tensor({300, -300}, "int32"):astype("int8"):tolist(), {127, -128})
  eq(soma.tensor({2147483647, 16777217}, "int32"):astype("float32"):tolist(), {2147483648.0, 16777216.0})
  eq(soma.tensor({257, 65535}, "uint16"):astype("bfloat16"):tolist(), {256.0, 65536.0})
end)

case("packed types, lane by lane", function()
  local e2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6}
  local v = {}
  for code = 0, 15 do v[code + 1] = (code < 8 and 1.0 or -1.0) * e2m1[code % 8 + 1] end
  local words = {}
  for i = 0, 3 do words[i + 1] = 4 * i | 4 * i + 1 << 4 | 4 * i + 2 << 8 | 4 * i + 3 << 12 end
  local packed = soma.tensor(words, "uint16"):view("float4_e2m1fn_x4")
  eq(packed:astype("float32"):tolist(), v)
  eq(soma.tensor(v):astype("float4_e2m1fn_x4"):tolist(), words)
  eq(soma.tensor({0.25, 0.75, 2.5, 100}):astype("float4_e2m1fn_x4"):tolist(), {0x7420}) -- ties to even, clamped
  for _, name in ipairs {"float8_e5m2", "float8_e4m3fn"} do
    local codes = soma.arange(256):astype("uint8")
    local got = codes:view(name .. "_x4"):astype("float32"):tolist()
    for code = 0, 255 do eq(got[code + 1], value(floats[name], code), name .. "_x4 " .. code) end
    local finite = soma.tensor({1, -2, 0.5, 3}):astype(name .. "_x4")
    eq(soma.equal(finite:view(name), soma.tensor({1, -2, 0.5, 3}):astype(name)), true)
  end
end)

case("elementwise float32 results are the double result rounded once", function()
  local x = soma.randn({64}, "float32", {seed = 11, std = 1000})
  local y = soma.uniform({64}, "float32", {seed = 12, low = -3, high = 3})
  local function f32(v) return (string.unpack("<f", string.pack("<f", v))) end
  local ops = {add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
    mul = function(a, b) return a * b end, div = function(a, b) return a / b end}
  for name, op in pairs(ops) do
    local got, a, b = x[name](x, y):tolist(), x:tolist(), y:tolist()
    for i = 1, 64 do eq(got[i], f32(op(a[i], b[i])), name) end
  end
end)

t.finish()
