-- Activation functions in double precision, and inputs where double is enough. Used by activation.lua
-- and gen4.lua.
local ref = require "conform.ref"
local M = {}

local inf = math.huge
local function sigmoid(x) return x >= 0 and 1 / (1 + math.exp(-x)) or math.exp(x) / (1 + math.exp(x)) end
local function tanh(x)
  if math.abs(x) < 1e-3 then return x - x ^ 3 / 3 + 2 * x ^ 5 / 15 end
  local e = math.exp(-2 * math.abs(x))
  return (x < 0 and -1 or 1) * (1 - e) / (1 + e)
end
-- erf by its series near zero and by a continued fraction beyond.
local function erfc_tail(x)
  local f = 0.0
  for k = 60, 1, -1 do f = k / 2 / (x + f) end
  return math.exp(-x * x) / math.sqrt(math.pi) / (x + f)
end
local function erf(x)
  local a = math.abs(x)
  if a > 6 then return x < 0 and -1.0 or 1.0 end
  if a > 2.5 then return (x < 0 and -1 or 1) * (1 - erfc_tail(a)) end
  local sum, term = x, x
  for n = 1, 80 do
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  end
  return 2 / math.sqrt(math.pi) * sum
end
local function cdf(x)
  if x < -3.5 then return 0.5 * erfc_tail(-x / math.sqrt(2)) end
  return 0.5 * (1 + erf(x / math.sqrt(2)))
end
local function log1p_exp(x)
  if x > 40 then return x end
  local e = math.exp(x)
  if e < 1e-4 then return e - e * e / 2 + e ^ 3 / 3 end
  return math.log(1 + e)
end
local root = math.sqrt(2 / math.pi)
M.functions = {
  copy = function(x) return x end,
  square = function(x) return x * x end,
  sigmoid = sigmoid,
  relu = function(x) return x > 0 and x or 0.0 end,
  gelu = function(x) return x == -inf and -0.0 or x * cdf(x) end,
  gelu_dx = function(x) return cdf(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi) end,
  gelu_apprx_tanh = function(x) return x * sigmoid(2 * root * (x + 0.044715 * x ^ 3)) end,
  gelu_apprx_sigmoid = function(x) return x * sigmoid(1.702 * x) end,
  gelu_apprx_sigmoid_dx = function(x) local s = sigmoid(1.702 * x) return s + 1.702 * x * s * (1 - s) end,
  silu = function(x) return x * sigmoid(x) end,
  silu_dx = function(x) local s = sigmoid(x) return s + x * s * (1 - s) end,
  tanh = tanh,
  softplus = log1p_exp,
  mish = function(x) return x * tanh(log1p_exp(x)) end,
  erf = erf,
  erf_dx = function(x) return 2 / math.sqrt(math.pi) * math.exp(-x * x) end,
  exp = math.exp,
  log = math.log,
  sin = function(x)
    if math.abs(x) <= math.pi then return math.sin(x) end
    local d = math.abs(x) - math.pi
    return (x < 0 and -1 or 1) * (d * d * d / 6 - d)
  end,
  arctan = math.atan,
  sqrt = math.sqrt,
  rsqrt = function(x) return 1 / math.sqrt(x) end,
  reciprocal = function(x) return 1 / x end,
  sign = function(x) return x > 0 and 1.0 or x < 0 and -1.0 or 0.0 end,
  abs = math.abs,
}
local positive = {log = true, sqrt = true, rsqrt = true, reciprocal = true}
local narrow = {arctan = 1.5, sin = 3.1}
-- Near its root a derivative's value in double loses digits; those inputs are the unit tests'.
local function far_from_root(name, x)
  return not (name:match("_dx$") and name ~= "erf_dx" and x > -1.6 and x < -0.5)
end

function M.points(name, n, seed)
  local x = ref.tame(n, seed)
  for i = 1, n do
    if positive[name] then x[i] = math.abs(x[i]) + ref.round(0.01) end
    if narrow[name] then x[i] = x[i] * narrow[name] / 4.001 end
    x[i] = ref.round(x[i])
    if not far_from_root(name, x[i]) then x[i] = ref.round(x[i] + 3) end
  end
  return x
end

return M
