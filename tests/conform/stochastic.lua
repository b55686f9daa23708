-- round=stochastic of tensor_copy, tensor_tensor, tensor_scalar and activate. The random words are a
-- function of engine, instruction, partition and element (isa/README.md); ref.lua has it.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local P, F = 5, 30
local shape = {P, F}

local function rounded(list, dtype, engine, count)
  local u = {}
  for i, x in ipairs(list) do
    u[i] = ref.encode(dtype, x, ref.random_word(engine, count, (i - 1) // F, (i - 1) % F))
  end
  return ref.from_bits(u, dtype, shape)
end

return function(suite)
  local x, y = ref.values(P * F, 21), ref.shuffled(P * F, 22)
  local a, b = ref.tensor(x, "float32", shape), ref.tensor(y, "float32", shape)
  local sum = util.map(ref.ops.add, x, y)
  local scaled = util.map(function(v) return ref.round(v * ref.round(1.1)) end, x)
  local engines = {{"vector", 2}, {"gpsimd", 2}, {"scalar", 3}}
  local function case(insn, name, engine, gen, body, list, t)
    suite:case {
      insn = insn, name = name, engine = engine, targets = util.since(gen), inputs = {a = a, b = b},
      outputs = {o = {t, shape}}, body = body .. ", round=stochastic", expect = {o = rounded(list, t, engine, 1)},
    }
  end
  for _, t in ipairs(ref.types) do
    for _, e in ipairs(engines) do
      local name = "stochastic to " .. t .. " on " .. e[1]
      if t == "float32" then -- equal types keep their bits
        suite:case {
          insn = "tensor_copy", name = name, engine = e[1], targets = util.since(e[2]), inputs = {a = a},
          outputs = {o = {t, shape}}, body = " tensor_copy o, a, round=stochastic", expect = {o = a},
        }
      else
        case("tensor_copy", name, e[1], e[2], " tensor_copy o, a", x, t)
      end
    end
    for _, engine in ipairs {"vector", "gpsimd"} do
      case("tensor_tensor", "stochastic to " .. t .. " on " .. engine, engine, 2, " tensor_tensor o, a, b, op=add", sum, t)
    end
    case("tensor_scalar", "stochastic to " .. t, "vector", 2, " tensor_scalar o, a, op0=mult, imm0=1.1", scaled, t)
    case("tensor_scalar", "stochastic to " .. t .. " on scalar", "scalar", 3, " tensor_scalar o, a, op0=mult, imm0=1.1", scaled, t)
    case("activate", "stochastic to " .. t, "scalar", 2, " activate o, a, fn=relu", util.map(function(v)
      return v ~= v and ref.nan or v > 0 and v or 0.0
    end, x), t)
  end
  -- the second instruction of an engine rounds otherwise than the first; engines do not disturb
  -- each other, nor does what rounds to nearest
  suite:case {
    insn = "tensor_copy", name = "stochastic, three instructions", targets = util.since(3), inputs = {a = a},
    outputs = {o = {"bfloat16", shape}, p = {"bfloat16", shape}, q = {"bfloat16", shape}, n = {"bfloat16", shape}},
    body = {
      vector = " tensor_copy o, a, round=stochastic\n tensor_copy n, a\n tensor_copy p, a, round=stochastic",
      scalar = " tensor_copy q, a, round=stochastic",
    },
    expect = {o = rounded(x, "bfloat16", "vector", 1), p = rounded(x, "bfloat16", "vector", 2),
      q = rounded(x, "bfloat16", "scalar", 1), n = ref.tensor(x, "bfloat16", shape)},
  }
  -- a column: every partition has its own word
  local column = {}
  for p = 0, P - 1 do column[p + 1] = ref.encode("bfloat16", x[p * F + 20], ref.random_word("vector", 1, p, 0)) end
  suite:case {
    insn = "tensor_copy", name = "stochastic, one element per partition", engine = "vector", inputs = {a = a},
    outputs = {o = {"bfloat16", {P, 1}}}, body = " tensor_copy o, a[:, 19:20], round=stochastic",
    expect = {o = ref.from_bits(column, "bfloat16", {P, 1})},
  }
end
