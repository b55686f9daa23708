-- The reference: numbers as isa/README.md defines them, in plain Lua, written from that definition
-- and not from the implementation. Doubles hold every intermediate: a sum, product, quotient or root
-- of fp32 values rounded to double and then to fp32 is the one rounding of fp32, because a double
-- has more than twice fp32's digits.
local soma = require "soma"
local M = {}

local inf = math.huge
local pack, unpack = string.pack, string.unpack
function M.bits_f32(u) return (string.unpack("<f", string.pack("<I4", u & 0xffffffff))) end
M.nan = M.bits_f32(0x7fc00000)

-- Floats: exponent and mantissa bits, largest finite value, infinity or not, canonical NaN.
local floats = {
  float32 = {e = 8, m = 23, max = 0x1.fffffep127, inf = true, nan = 0x7fc00000, bytes = 4, shift = 0},
  tfloat32 = {e = 8, m = 10, max = 0x1.ffcp127, inf = true, nan = 0x7fc00000, bytes = 4, shift = 13},
  bfloat16 = {e = 8, m = 7, max = 0x1.fep127, inf = true, nan = 0x7fc0, bytes = 2, shift = 0},
  float16 = {e = 5, m = 10, max = 65504, inf = true, nan = 0x7e00, bytes = 2, shift = 0},
  float8_e3m4 = {e = 3, m = 4, max = 15.5, inf = true, nan = 0x78, bytes = 1, shift = 0},
  float8_e4m3 = {e = 4, m = 3, max = 240, inf = true, nan = 0x7c, bytes = 1, shift = 0},
  float8_e4m3fn = {e = 4, m = 3, max = 448, inf = false, nan = 0x7f, bytes = 1, shift = 0},
  float8_e5m2 = {e = 5, m = 2, max = 57344, inf = true, nan = 0x7e, bytes = 1, shift = 0},
}
local ints = {uint8 = {1, false}, int8 = {1, true}, uint16 = {2, false}, int16 = {2, true},
  uint32 = {4, false}, int32 = {4, true}}
-- Types with an fp32 meaning, and the plain ones among them.
M.floats, M.ints = floats, ints
M.types = {"float32", "bfloat16", "float16", "tfloat32", "float8_e3m4", "float8_e4m3", "float8_e4m3fn",
  "float8_e5m2", "float8_e8m0fnu", "uint8", "int8", "uint16", "int16", "uint32", "int32", "bool"}

local function half_even(x)
  local f = math.floor(x)
  local d = x - f
  if d > 0.5 or (d == 0.5 and f % 2 == 1) then f = f + 1 end
  return f
end

local function exponent(a) -- floor(log2 a) of a positive double
  local e = ((string.unpack("<I8", string.pack("<d", a)) >> 52) & 0x7ff) - 1023
  return e
end

-- Rounding of a positive double to an integer, stochastic when given a random 32-bit word: up when
-- the word is below the dropped fraction times 2^32.
local function integer(x, word)
  if not word then return half_even(x) end
  local f = math.floor(x)
  return word < math.floor((x - f) * 2.0 ^ 32) and f + 1 or f
end

local function encode_float(t, x, word)
  if x ~= x then return t.nan end
  local sign = (x < 0 or 1 / x < 0) and 1 << (t.e + t.m + t.shift) or 0
  local a, bias = math.abs(x), (1 << (t.e - 1)) - 1
  local all_ones = ((1 << t.e) - 1) << t.m
  if a == 0 then return sign end
  local over = t.inf and sign | all_ones << t.shift or t.nan
  if a == inf then return over end
  local e = math.max(exponent(a), 1 - bias)
  local r = integer(a / 2.0 ^ (e - t.m), word)
  if r * 2.0 ^ (e - t.m) > t.max then return over end
  if r >= 2 ^ (t.m + 1) then e, r = e + 1, r / 2 end
  local bits = r < 2 ^ t.m and r or ((e + bias) << t.m) + (r - 2 ^ t.m)
  return sign | (math.tointeger(bits) << t.shift)
end

local function decode_float(t, u)
  u = u >> t.shift
  local bias, mask = (1 << (t.e - 1)) - 1, (1 << t.m) - 1
  local e, f = (u >> t.m) & ((1 << t.e) - 1), u & mask
  local s = u >> (t.e + t.m) & 1 == 1 and -1.0 or 1.0
  if t.inf and e == (1 << t.e) - 1 then return f == 0 and s * inf or M.nan end
  if not t.inf and u & 0x7f == 0x7f then return M.nan end
  if e == 0 then return s * f * 2.0 ^ (1 - bias - t.m) end
  return s * ((1 << t.m) + f) * 2.0 ^ (e - bias - t.m)
end

-- One fp32 rounding of a double. Where the result is an ordinary number, C's conversion gives it sooner.
local function round_slowly(x) return decode_float(floats.float32, encode_float(floats.float32, x)) end
function M.round(x)
  if x < 0x1.fffffep127 and x > 0x1p-126 or x > -0x1.fffffep127 and x < -0x1p-126 then
    return (unpack("<f", pack("<f", x)))
  end
  return round_slowly(x)
end

-- Bits of the element that fp32 value x becomes; word: stochastic rounding, which is for floats only.
function M.encode(dtype, x, word)
  if dtype == "float32" and not word then
    x = M.round(x)
    if x == x then return (unpack("<I4", pack("<f", x))) end
  end
  if floats[dtype] then return encode_float(floats[dtype], x, word) end
  if dtype == "bool" then return x ~= 0 and 1 or 0 end
  if dtype == "float8_e8m0fnu" then
    if x ~= x or x < 0 or x == inf then return 255 end
    if x < 2.0 ^ -127 then return 0 end
    local e = exponent(x)
    local f = x / 2.0 ^ e
    if word then e = e + (integer(f, word) - 1)
    elseif f > 1.5 or (f == 1.5 and (e + 127) % 2 == 1) then e = e + 1 end
    return e > 127 and 255 or math.tointeger(e) + 127
  end
  local bytes, signed = table.unpack(ints[dtype])
  local lo, hi = 0, 2.0 ^ (8 * bytes) - 1
  if signed then lo, hi = -2.0 ^ (8 * bytes - 1), 2.0 ^ (8 * bytes - 1) - 1 end
  if x ~= x then return 0 end
  local v = x <= lo and lo or x >= hi and hi or half_even(x)
  return math.tointeger(v) & ((1 << 8 * bytes) - 1)
end

-- fp32 value of an element's bits.
function M.decode(dtype, u)
  if floats[dtype] then return decode_float(floats[dtype], u) end
  if dtype == "bool" then return u ~= 0 and 1.0 or 0.0 end
  if dtype == "float8_e8m0fnu" then return u == 255 and M.nan or 2.0 ^ (u - 127) end
  local bytes, signed = table.unpack(ints[dtype])
  if signed and u >> (8 * bytes - 1) == 1 then u = u - (1 << 8 * bytes) end
  return M.round(u + 0.0)
end

function M.bytes(dtype)
  return floats[dtype] and floats[dtype].bytes or ints[dtype] and ints[dtype][1] or 1
end

-- The random words of round=stochastic: of element i (from 0) of partition p of the count-th (from 1)
-- instruction of an engine that rounds so, in a run with rounding seed 0.
local engine_codes = {tensor = 0, vector = 1, scalar = 2, gpsimd = 3, sync = 4}
local function mix64(x)
  x = x * 0x9e3779b97f4a7c15
  x = (x ~ (x >> 30)) * 0xbf58476d1ce4e5b9
  x = (x ~ (x >> 27)) * 0x94d049bb133111eb
  return x ~ (x >> 31)
end
function M.random_word(engine, count, p, i)
  local key = mix64(mix64(engine_codes[engine]) + count)
  local x = ((mix64(key + p) >> 32) + i * 0x9e3779b9) & 0xffffffff
  x = ((x ~ (x >> 16)) * 0x7feb352d) & 0xffffffff
  x = ((x ~ (x >> 15)) * 0x846ca68b) & 0xffffffff
  return x ~ (x >> 16)
end

-- A tensor from element bits.
function M.from_bits(list, dtype, shape)
  local s, fmt = {}, "<I" .. M.bytes(dtype)
  for i, u in ipairs(list) do s[i] = string.pack(fmt, u) end
  return soma.frombytes(table.concat(s), dtype, shape)
end

-- A tensor from numbers, rounded to the type by this file; and back: the fp32 values of a tensor.
function M.tensor(list, dtype, shape)
  local u = {}
  for i, x in ipairs(list) do u[i] = M.encode(dtype, x) end
  return M.from_bits(u, dtype, shape)
end
function M.bits(t)
  local out, n, s = {}, M.bytes(t.dtype), t:bytes()
  for i = 0, t.size - 1 do out[i + 1] = (string.unpack("<I" .. n, s, i * n + 1)) end
  return out
end
function M.list(t)
  local u = M.bits(t)
  for i = 1, #u do u[i] = M.decode(t.dtype, u[i]) end
  return u
end

-- Adversarial fp32 values first, then reproducible ones of many magnitudes.
M.specials = {0.0, -0.0, 1.0, -1.0, inf, -inf, M.nan, 0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffep127,
  -0x1.fffffep127, 0x1.000002p0, 0.1, -0.3, 3.0, 16777216.0, 16777217.0, 65504.0, 65520.0, 448.0, 464.0,
  240.0, 248.0, 57344.0, 61440.0, 0x1.01p0, 0x1.018p0, 0.5, 1.5, 2.5, -2.5, 127.5, 128.5, 255.5, 1e-8}
function M.values(n, seed)
  local t, s = {}, (seed or 1) * 0x9E3779B97F4A7C15
  for i = 1, n do
    s = s ~ (s << 13); s = s ~ (s >> 7); s = s ~ (s << 17)
    if i <= #M.specials then t[i] = M.round(M.specials[i])
    else t[i] = M.round((s & 0xffffff) / 0x1000000 * 2.0 ^ ((s >> 40) % 24 - 12) * (s & 0x1000000 ~= 0 and -1 or 1)) end
  end
  return t
end
-- The same in an order of their own, so that pairs of specials meet.
function M.shuffled(n, seed)
  local t, s = M.values(n, seed), seed * 0x9E3779B97F4A7C15 | 1
  for i = n, 2, -1 do
    s = s * 6364136223846793005 + 1442695040888963407
    local j = (s >> 33) % i + 1
    t[i], t[j] = t[j], t[i]
  end
  return t
end
-- Tame values: no specials, magnitudes near one.
function M.tame(n, seed)
  local t, s = {}, seed * 0x9E3779B97F4A7C15 | 1
  for i = 1, n do
    s = s * 6364136223846793005 + 1442695040888963407
    t[i] = M.round(((s >> 33) % 2001 - 1000) / 250)
  end
  return t
end

-- ---- Operators: fp32 in, one rounding, fp32 out ---------------------------------------------

local function truth(b) return b and 1.0 or 0.0 end
local function is_negative(x) return x < 0 or 1 / x < 0 end
-- min and max skip NaN and order -0 below +0
local function greater(x, y)
  if x ~= x then return y elseif y ~= y then return x end
  if x == 0 and y == 0 then return is_negative(x) and y or x end
  return x > y and x or y
end
local function lesser(x, y)
  if x ~= x then return y elseif y ~= y then return x end
  if x == 0 and y == 0 then return is_negative(x) and x or y end
  return x < y and x or y
end
M.ops = {
  bypass = function(x) return x end,
  abs = function(x) return x ~= x and M.nan or math.abs(x) end,
  add = function(x, y) return M.round(x + y) end,
  subtract = function(x, y) return M.round(x - y) end,
  mult = function(x, y) return M.round(x * y) end,
  max = greater,
  min = lesser,
  average = function(x, y) return M.round(M.round(x + y) * 0.5) end,
  is_equal = function(x, y) return truth(x == y) end,
  not_equal = function(x, y) return truth(x ~= y) end,
  is_ge = function(x, y) return truth(x >= y) end,
  is_gt = function(x, y) return truth(x > y) end,
  is_le = function(x, y) return truth(x <= y) end,
  is_lt = function(x, y) return truth(x < y) end,
  logical_and = function(x, y) return truth(x ~= 0 and y ~= 0) end,
  logical_or = function(x, y) return truth(x ~= 0 or y ~= 0) end,
  logical_xor = function(x, y) return truth((x ~= 0) ~= (y ~= 0)) end,
  reciprocal = function(x) return M.round(1 / x) end,
  rsqrt = function(x) return M.round(1 / math.sqrt(x)) end,
  square = function(x) return M.round(x * x) end,
  relu = function(x) return x ~= x and M.nan or x > 0 and x or 0.0 end,
  abs_max = function(x, y)
    if x ~= x then return y elseif y ~= y then return x end
    return math.abs(x) > math.abs(y) and x or y
  end,
  abs_min = function(x, y)
    if x ~= x then return y elseif y ~= y then return x end
    return math.abs(x) < math.abs(y) and x or y
  end,
}

-- Bit operators on w bits; shifts by the width or more give 0, arithmetic ones the sign.
function M.bit_op(op, x, y, w, signed)
  local mask = (1 << w) - 1
  local r
  if op == "bitwise_and" then r = x & y
  elseif op == "bitwise_or" then r = x | y
  elseif op == "bitwise_xor" then r = x ~ y
  elseif op == "bitwise_not" then r = ~x
  elseif op == "bypass" then r = x
  elseif op == "logical_shift_left" or op == "arith_shift_left" then r = y >= w and 0 or x << y
  elseif op == "logical_shift_right" then r = y >= w and 0 or x >> y
  elseif op == "arith_shift_right" then
    local v = signed and x >> (w - 1) == 1 and x - (1 << w) or x
    r = y >= w and (v < 0 and -1 or 0) or v // (1 << y)
  end
  return r & mask
end

-- Sixteen interleaved partials, each in order, then i with i+8, i+4, i+2, i+1.
function M.sixteen(op, list)
  local f = M.ops[op]
  local start = ({add = 0.0, mult = 1.0, max = -inf, min = inf})[op]
  local part = {}
  for i = 0, 15 do part[i] = start end
  for i, x in ipairs(list) do part[(i - 1) % 16] = f(part[(i - 1) % 16], x) end
  for _, d in ipairs {8, 4, 2, 1} do
    for i = 0, d - 1 do part[i] = f(part[i], part[i + d]) end
  end
  return part[0]
end

return M
