-- activate and act_read_acc. Expected values come from double-precision formulas, so results may be
-- one unit in the last place off; copy, relu, abs, sign and square are exact.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local functions, points = require("conform.functions").functions, require("conform.functions").points
local inf = math.huge

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
  -- a table that is loaded ahead changes no result, whatever the function after it
  for k, row in ipairs(soma.isa.actfns) do
    local f = functions[row.name]
    if row.gen == 2 and row.table then
      local x, other = points(row.name, P * F, k), row.name == "exp" and "tanh" or "exp"
      suite:case {
        insn = "load_act_table", name = row.name, engine = "scalar", ulp = 1,
        inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}},
        body = (" load_act_table fn=%s\n activate o, a, fn=%s\n load_act_table fn=%s"):format(
          k % 2 == 0 and row.name or other, row.name, row.name),
        expect = {o = ref.tensor(util.map(function(v) return ref.round(f(v)) end, x), "float32", shape)},
      }
    end
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
