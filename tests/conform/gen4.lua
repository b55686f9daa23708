-- activate2 and exponential.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"
local math_of = require "conform.functions"

local P, F = 4, 20
local shape = {P, F}
local g4 = util.since(4)

local function activate2(suite)
  local x = ref.tame(P * F, 3)
  local function case(name, body, f, ulp)
    suite:case {
      insn = "activate2", name = name, engine = "scalar", targets = g4, inputs = {a = ref.tensor(x, "float32", shape)},
      outputs = {o = {"float32", shape}}, ulp = ulp, body = " activate2 o, a, " .. body,
      expect = {o = ref.tensor(util.map(f, x), "float32", shape)},
    }
  end
  local r = ref.round
  case("mult, add", "fn=copy, op0=mult, imm0=2.5, op1=add, imm1=-1.0", function(v) return r(r(v * 2.5) - 1) end)
  case("mult, subtract", "fn=copy, op0=mult, imm0=2.5, op1=subtract, imm1=1.5", function(v) return r(r(v * 2.5) - 1.5) end)
  case("mult", "fn=copy, op0=mult, imm0=0.1", function(v) return r(v * r(0.1)) end)
  case("add", "fn=copy, op0=add, imm0=0.1", function(v) return r(v + r(0.1)) end)
  case("subtract", "fn=copy, op0=subtract, imm0=0.1", function(v) return r(v - r(0.1)) end)
  case("subtract reversed", "fn=copy, op0=subtract, imm0=0.1, reverse0=true", function(v) return r(r(0.1) - v) end)
  case("mult, subtract reversed", "fn=copy, op0=mult, imm0=3.0, op1=subtract, imm1=1.0, reverse1=true",
    function(v) return r(1 - r(v * 3)) end)
  case("no operator", "fn=copy", function(v) return v end)
  for k, row in ipairs(soma.isa.actfns) do
    local f, a = math_of.functions[row.name], math_of.points(row.name, P * F, k)
    if f then
      suite:case {
        insn = "activate2", name = "fn " .. row.name, engine = "scalar", targets = g4, ulp = 1,
        inputs = {a = ref.tensor(a, "float32", shape)}, outputs = {o = {"float32", shape}},
        body = " activate2 o, a, fn=" .. row.name,
        expect = {o = ref.tensor(util.map(function(v) return r(f(v)) end, a), "float32", shape)},
      }
    end
  end
  local hard = {0.0, -0.0, 1.5, -1.5, math.huge, -math.huge, ref.nan, -0x1p-149}
  for _, slope in ipairs {0.25, 0.0, -2.0, 1.0} do
    suite:case {
      insn = "activate2", name = "prelu by " .. slope, engine = "scalar", targets = g4,
      inputs = {a = ref.tensor(hard, "float32", {1, 8})}, outputs = {o = {"float32", {1, 8}}},
      body = " activate2 o, a, fn=prelu, relu_param=" .. slope,
      expect = {o = ref.tensor(util.map(function(v)
        if v ~= v then return ref.nan end
        return v >= 0 and v or r(slope * v)
      end, hard), "float32", {1, 8})},
    }
  end
  for k = 1, #ref.types do
    local t, u = util.types(k)
    local a = ref.tensor(x, t, shape)
    suite:case {
      insn = "activate2", name = t .. " to " .. u, engine = "scalar", targets = g4, inputs = {a = a},
      outputs = {o = {u, shape}}, body = " activate2 o, a, fn=square, op0=add, imm0=0.5",
      expect = {o = ref.tensor(util.map(function(v) v = r(v + 0.5) return r(v * v) end, ref.list(a)), u, shape)},
    }
  end
  for _, op in ipairs {"add", "max", "min", "abs_max", "abs_min"} do
    local once, twice = {}, {}
    for p = 0, P - 1 do
      local list = util.row(x, p, F)
      local s
      if op:match("^abs") then
        s = list[1]
        for i = 2, F do s = ref.ops[op](s, list[i]) end
      else
        s = ref.sixteen(op, list)
      end
      once[p + 1] = s
      twice[p + 1] = op == "add" and r(s + s) or s
    end
    local start = ({add = 0.0, max = -math.huge, min = math.huge, abs_max = 0.0, abs_min = math.huge})[op]
    for _, second in ipairs {"reduce", "idle", "reset"} do
      suite:case {
        insn = "activate2", name = op .. " reset_reduce, " .. second, engine = "scalar", targets = g4,
        inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {o = {"float32", shape}, r = {"float32", {P, 1}}},
        body = " activate2 o, a, fn=copy, reduce=reset_reduce, reduce_op=" .. op .. "\n activate2 o, a, fn=copy, reduce="
          .. second .. (second ~= "idle" and ", reduce_op=" .. op or "") .. "\n act_read_acc r",
        expect = {r = ref.tensor(second == "reduce" and twice or second == "idle" and once
          or util.map(function() return start end, once), "float32", {P, 1})},
      }
    end
  end
  suite:case {
    insn = "activate2", name = "refused: a pair that the engine lacks", engine = "scalar", targets = g4,
    inputs = {a = soma.ones(shape, "float32")}, outputs = {o = {"float32", shape}},
    body = " activate2 o, a, fn=copy, op0=add, imm0=1.0, op1=mult, imm1=2.0", refuse = "mult",
  }
end

local function exponential(suite)
  local x = ref.tame(P * F, 4)
  local function f(v) return ref.round(math.exp(ref.round(v - 0.5))) end
  local e = util.map(f, x)
  for _, t in ipairs {"float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int8", "int16", "int32", "uint8",
    "uint16", "tfloat32"} do
    local from = t == "tfloat32" and "uint32" or t
    local a = ref.tensor(x, from, shape)
    suite:case {
      insn = "exponential", name = from .. " to " .. t, engine = "vector", targets = g4, ulp = 1, inputs = {a = a},
      outputs = {o = {t, shape}}, body = " exponential o, a, max=0.5",
      expect = {o = ref.tensor(util.map(f, ref.list(a)), t, shape)},
    }
  end
  local sums = {}
  for p = 0, P - 1 do sums[p + 1] = ref.sixteen("add", util.row(e, p, F)) end
  for cmd, of in pairs {
    ["reset_reduce"] = function(s) return s end, ["load_reduce, init=2.0"] = function(s) return ref.round(2 + s) end,
    ["reset_reduce\n exponential o, a, max=0.5, reduce=reduce"] = function(s) return ref.round(s + s) end,
  } do
    suite:case {
      insn = "exponential", name = (cmd:gsub("\n.*", ", reduce")), engine = "vector", targets = g4, ulp = 4,
      inputs = {a = ref.tensor(x, "float32", shape)}, outputs = {r = {"float32", {P, 1}}}, tiles = {o = {"float32", shape}},
      body = " exponential o, a, max=0.5, reduce=" .. cmd .. "\n dve_read_acc r",
      expect = {r = ref.tensor(util.map(of, sums), "float32", {P, 1})},
    }
  end
  suite:case {
    insn = "exponential", name = "refused: reset", engine = "vector", targets = g4, inputs = {a = soma.ones(shape, "float32")},
    outputs = {o = {"float32", shape}}, body = " exponential o, a, reduce=reset", refuse = "reset",
  }
end

return function(suite)
  activate2(suite)
  exponential(suite)
end
