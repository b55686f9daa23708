-- activate and act_read_acc. Expected values come from double-precision formulas, so results may be
-- one unit in the last place off; copy, relu, abs, sign and square are exact.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

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
local functions = {
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

local function points(name, n, seed)
  local x = ref.tame(n, seed)
  for i = 1, n do
    if positive[name] then x[i] = math.abs(x[i]) + ref.round(0.01) end
    if narrow[name] then x[i] = x[i] * narrow[name] / 4.001 end
    x[i] = ref.round(x[i])
    if not far_from_root(name, x[i]) then x[i] = ref.round(x[i] + 3) end
  end
  return x
end

return function(suite)
  local P, F = 4, 20
  local shape = {P, F}
  for k, row in ipairs(soma.isa.actfns) do
    local f = functions[row.name]
    if f and row.gen == 2 then
      local x = points(row.name, P * F, k)
      suite:case {
        insn = "activate", name = row.name, engine = "scalar", ulp = 1,
        inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}},
        body = " activate o, a, fn=" .. row.name,
        expect = {o = ref.tensor(util.map(function(v) return ref.round(f(v)) end, x), "float32", shape)},
      }
    end
  end
  -- the usual points, exactly
  for name, pairs_ in pairs {
    exp = {0, 1, -inf, 0, inf, inf}, tanh = {inf, 1, -inf, -1, 0, 0}, sigmoid = {0, 0.5, inf, 1, -inf, 0},
    erf = {inf, 1, -inf, -1}, relu = {-1, 0, 2, 2, inf, inf}, log = {1, 0}, sqrt = {4, 2, 0, 0},
    sign = {-3, -1, 3, 1, 0, 0}, gelu = {0, 0, inf, inf}, softplus = {-inf, 0, inf, inf}, abs = {-inf, inf},
  } do
    local x, y = {}, {}
    for i = 1, #pairs_, 2 do x[#x + 1], y[#y + 1] = pairs_[i] + 0.0, pairs_[i + 1] + 0.0 end
    x[#x + 1], y[#y + 1] = ref.nan, ref.nan
    suite:case {
      insn = "activate", name = name .. " at the usual points", engine = "scalar",
      inputs = {a = ref.tensor(x, "float32", {1, #x})}, outputs = {o = {"float32", {1, #x}}},
      body = " activate o, a, fn=" .. name, expect = {o = ref.tensor(y, "float32", {1, #x})},
    }
  end
  suite:case {
    insn = "activate", name = "sin beyond pi is a cubic", engine = "scalar", ulp = 1,
    inputs = {a = ref.tensor({9.0, -9.0, 4.0}, "float32", {1, 3})}, outputs = {o = {"float32", {1, 3}}},
    body = " activate o, a, fn=sin",
    expect = {o = ref.tensor({ref.round(functions.sin(9.0)), ref.round(functions.sin(-9.0)), ref.round(functions.sin(4.0))}, "float32", {1, 3})},
  }
  for k = 1, #ref.types do
    local t, u = util.types(k)
    local a = ref.tensor(ref.tame(P * F, k + 5), t, shape)
    local s, b = ref.tame(P, k), ref.tensor(ref.tame(P, k + 1), "bfloat16", {P, 1})
    local bias, x, want = ref.list(b), ref.list(a), {}
    for i = 1, P * F do
      local p = (i - 1) // F + 1
      want[i] = ref.round(ref.round(x[i] * s[p]) + bias[p])
    end
    suite:case {
      insn = "activate", name = t .. " to " .. u .. ", columns as scale and bias", engine = "scalar",
      inputs = {a = a, s = ref.tensor(s, "float32", {P, 1}), b = b}, outputs = {o = {u, shape}},
      body = " activate o, a, fn=copy, scale=s, bias=b", expect = {o = ref.tensor(want, u, shape)},
    }
  end
  suite:case {
    insn = "activate", name = "numbers as scale and bias: two roundings", engine = "scalar", targets = util.since(3),
    inputs = {a = ref.tensor(ref.values(P * F, 2), "float32", shape)}, outputs = {o = {"float32", shape}},
    body = " activate o, a, fn=copy, scale=1.1, bias=-0.3",
    expect = {o = ref.tensor(util.map(function(v) return ref.round(ref.round(v * ref.round(1.1)) + ref.round(-0.3)) end,
      ref.values(P * F, 2)), "float32", shape)},
  }
  -- registers: reset_reduce, reduce on top, idle reads, reset zeroes
  local x = ref.tame(P * F, 6)
  local sums, twice, zero = {}, {}, {}
  for p = 0, P - 1 do
    local s = ref.sixteen("add", util.row(x, p, F))
    sums[p + 1], zero[p + 1] = s, 0.0
    twice[p + 1] = ref.round(s + s)
  end
  local function registers(name, body, want, insn)
    suite:case {
      insn = insn, name = name, engine = "scalar", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}}, body = body,
      expect = {r = ref.tensor(want, "float32", {P, 1})},
    }
  end
  local one = " activate o, a, fn=copy, reduce=reset_reduce\n"
  for _, insn in ipairs {"activate", "act_read_acc"} do
    registers("sum", one .. " act_read_acc r", sums, insn)
    registers("sum on a sum", one .. " activate o, a, fn=copy, reduce=reduce\n act_read_acc r", twice, insn)
    registers("idle leaves", one .. " activate o, o, fn=square, reduce=idle\n act_read_acc r", sums, insn)
    registers("reset zeroes", one .. " activate o, a, fn=copy, reduce=reset\n act_read_acc r", zero, insn)
  end
  for k = 1, #ref.types do
    local t = ref.types[k]
    suite:case {
      insn = "act_read_acc", name = "as " .. t, engine = "scalar", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {r = {t, {P, 1}}}, tiles = {o = {"float32", shape}}, body = one .. " act_read_acc r",
      expect = {r = ref.tensor(sums, t, {P, 1})},
    }
    suite:case {
      insn = "act_read_acc", name = "negated, as " .. t, engine = "scalar", inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {r = {t, {P, 1}}}, tiles = {o = {"float32", shape}}, body = one .. " act_read_acc r, negate=true",
      expect = {r = ref.tensor(util.map(function(v) return -v end, sums), t, {P, 1})},
    }
  end
  suite:case {
    insn = "activate", name = "refused on gen2: a number as bias", engine = "scalar", targets = {"trn1", "inf2"},
    inputs = {a = soma.ones(shape, "float32")}, outputs = {o = {"float32", shape}},
    body = " activate o, a, fn=exp, bias=1.0", refuse = "bias",
  }
  suite:case {
    insn = "activate", name = "refused: a bf16 column as scale", engine = "scalar",
    inputs = {a = soma.ones(shape, "float32"), s = soma.ones({P, 1}, "bfloat16")}, outputs = {o = {"float32", shape}},
    body = " activate o, a, fn=exp, scale=s", refuse = "float32",
  }
  suite:case {
    insn = "activate", name = "refused: load_reduce", engine = "scalar",
    inputs = {a = soma.ones(shape, "float32")}, outputs = {o = {"float32", shape}},
    body = " activate o, a, fn=exp, reduce=load_reduce", refuse = "load_reduce",
  }
end
