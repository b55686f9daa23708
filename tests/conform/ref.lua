-- The reference: numbers as 05 of the design defines them, in plain Lua, written without a look at
-- the implementation. Doubles hold every intermediate exactly where that matters: a product or sum
-- of two fp32 values rounded to double and then to fp32 equals the one rounding of fp32 (53 >= 2 *
-- 24 + 2 bits), for + - * / and sqrt.
local soma = require "soma"
local M = {}

function M.f32(x) return (string.unpack("<f", string.pack("<f", x))) end
function M.bits_f32(u) return (string.unpack("<f", string.pack("<I4", u & 0xffffffff))) end
function M.f32_bits(x) return (string.unpack("<I4", string.pack("<f", x))) end

local inf = math.huge
M.nan = M.bits_f32(0x7fc00000)

-- fp32 whose magnitude overflows string.pack's range check goes to infinity by hand.
function M.round(x)
  if x ~= x then return M.nan end
  if x > 0x1.ffffffp127 then return inf elseif x < -0x1.ffffffp127 then return -inf end
  if math.abs(x) >= 0x1.fffffep127 then return x > 0 and 0x1.fffffep127 or -0x1.fffffep127 end
  return M.f32(x)
end

-- Deterministic adversarial fp32 values: specials, ties, subnormals, large, then pseudo-random ones.
M.specials = {0.0, -0.0, 1.0, -1.0, inf, -inf, M.nan, 0x1p-149, -0x1p-149, 0x1p-126, 0x1.fffffep127,
  -0x1.fffffep127, 0x1.000002p0, 0.1, -0.3, 3.0, 16777216.0, 16777217.0, 65504.0, 65520.0, 448.0, 464.0,
  240.0, 248.0, 57344.0, 61440.0, 0x1.01p0, 0x1.018p0, 0.5, 1.5, 2.5, -2.5, 127.5, 128.5, 255.5, 1e-8}

function M.values(n, seed)
  local t, state = {}, (seed or 1) * 0x9E3779B97F4A7C15
  for i = 1, n do
    if i <= #M.specials then t[i] = M.round(M.specials[i])
    else
      state = state ~ (state << 13); state = state ~ (state >> 7); state = state ~ (state << 17)
      local e = (state >> 40) % 40 - 20
      t[i] = M.f32((state & 0xffffff) / 0x1000000 * 2.0 ^ e * (state & 0x1000000 ~= 0 and -1 or 1))
    end
  end
  return t
end

-- Tensor of a type from Lua numbers by the machine's own cast of fp32 values, which the unit tests
-- check against every boundary; and the fp32 value of each element.
function M.tensor(list, dtype, shape) return soma.tensor(list, "float32"):reshape(shape):astype(dtype) end
function M.list(t) return t:astype("float32"):reshape {t.size}:tolist() end

return M
