-- custom_op: operators that the case registers (custom = {name = options of core:custom}). What is
-- fixed is how operands reach a function and come back, not what it does.
local soma = require "soma"
local ref = require "conform.ref"
local util = require "conform.util"

local P, F = 5, 7
local copy = {dsts = 1, srcs = 1, imms = 0, fn = function(_, s) return s end}

local function each_type(suite)
  for _, row in ipairs(soma.isa.dtypes) do
    local t = row.name
    if row.bytes <= 4 then
      local bits = {}
      for i = 1, P * F do bits[i] = (i * 0x9E3779B1 ~ i << 7) & (1 << 8 * row.bytes) - 1 end
      if t == "bool" then for i = 1, P * F do bits[i] = bits[i] & 1 end end
      local s = {}
      for i, u in ipairs(bits) do s[i] = string.pack("<I" .. row.bytes, u) end
      local a = soma.frombytes(table.concat(s), t, {P, F})
      suite:case {
        insn = "custom_op", name = "bits of " .. t, engine = "gpsimd", custom = {same = copy}, inputs = {a = a},
        outputs = {o = {t, {P, F}}}, body = ' custom_op "same", dsts=[o], srcs=[a]', expect = {o = a},
      }
    end
  end
end

return function(suite)
  each_type(suite)
  local x, y = ref.tame(P * F, 1), ref.tame(128 * 3, 2)
  local a, b = ref.tensor(x, "float32", {P, F}), ref.tensor(y, "bfloat16", {128, 3})
  local function case(c)
    c.insn, c.engine = "custom_op", "gpsimd"
    suite:case(c)
  end
  case {
    name = "immediates, a result of another type", custom = {["a x + b"] = {fn = function(o, s, k, c) o:assign(s * k + c) end}},
    inputs = {a = a}, outputs = {o = {"int8", {P, F}}}, body = ' custom_op "a x + b", dsts=[o], srcs=[a], imms=[2.5, -0.25]',
    expect = {o = ref.tensor(util.map(function(v) return ref.round(ref.round(v * 2.5) - 0.25) end, x), "int8", {P, F})},
  }
  local z, sums = ref.list(b), {}
  for p = 0, 127 do sums[p + 1] = ref.round(ref.round(z[3 * p + 1] + z[3 * p + 2]) + z[3 * p + 3]) end
  case {
    name = "operands of their own shapes", inputs = {a = a, b = b}, outputs = {s = {"float32", {128, 1}}, o = {"float32", {1, 1}}},
    custom = {sums = {dsts = 2, srcs = 2, fn = function(s, o, u, v)
      for p = 0, 127 do
        local sum = 0.0
        for i = 0, 2 do sum = ref.round(sum + v:get(p, i)) end
        s:set(p, 0, sum)
      end
      return nil, u:slice({0, 1}, {0, 1})
    end}},
    body = ' custom_op "sums", dsts=[s, o], srcs=[a, b]',
    expect = {s = ref.tensor(sums, "float32", {128, 1}), o = ref.tensor({x[1]}, "float32", {1, 1})},
  }
  local turned, mixed = {}, {}
  for p = 0, P - 1 do
    for i = 0, F - 1 do turned[p * F + i + 1] = x[p * F + F - i] end
    for i = 0, F - 1 do mixed[p * F + i + 1] = i % 2 == 1 and x[p * F + i // 2 + 1] or x[p * F + i + 1] end
  end
  case {
    name = "in place: sources as of the start", inputs = {o = a}, outputs = {o = {"float32", {P, F}}},
    custom = {turn = {fn = function(d, s)
      for p = 0, P - 1 do for i = 0, F - 1 do d:set(p, i, s:get(p, F - 1 - i)) end end
    end}},
    body = ' custom_op "turn", dsts=[o], srcs=[o]', expect = {o = ref.tensor(turned, "float32", {P, F})},
  }
  case {
    name = "strided operands, what is not stored stays", inputs = {a = a, o = a}, outputs = {o = {"float32", {P, F}}},
    custom = {same = copy}, body = ' custom_op "same", dsts=[o.ap([[2, 3]], offset=1)], srcs=[a[:, 0:3]]',
    expect = {o = ref.tensor(mixed, "float32", {P, F})},
  }
  case {
    name = "no source, one element stored", inputs = {o = a}, outputs = {o = {"float32", {P, F}}},
    custom = {one = {srcs = 0, fn = function(d) d:set(1, 2, 9) end}}, body = ' custom_op "one", dsts=[o]',
    expect = {o = ref.tensor((function()
      local list = {table.unpack(x)}
      list[F + 3] = 9.0
      return list
    end)(), "float32", {P, F})},
  }
  -- A register as a size: of four columns two are given.
  local part = {table.unpack(x)}
  for p = 0, P - 1 do part[p * F + 1], part[p * F + 2] = -x[p * F + 1], -x[p * F + 2] end
  case {
    name = "a size in a register", inputs = {a = a, o = a}, outputs = {o = {"float32", {P, F}}},
    custom = {minus = {fn = function(_, s) return -s end}},
    body = ' mov r1, 2\n custom_op "minus", dsts=[o[:, 0:+r1<=4]], srcs=[a[:, 0:+r1<=4]]',
    expect = {o = ref.tensor(part, "float32", {P, F})},
  }
  local function fault(name, op, text)
    case {
      name = name, custom = {bad = op}, inputs = {a = a}, outputs = {o = {"float32", {P, F}}},
      body = ' custom_op "bad", dsts=[o], srcs=[a]', fault = text,
    }
  end
  fault("an error", {fn = function() error("of its own", 0) end}, 'custom_op "bad": of its own')
  fault("an error that is not a string", {fn = function() error {} end}, 'custom_op "bad": an error that is a table, not a string')
  fault("too many results", {fn = function(_, s) return s, s end}, "it returns 2 values for 1 destinations")
  fault("another shape", {fn = function(_, s) return s:slice({0, 2}) end}, "float32[2, 7]")
  local function refuse(name, op, text)
    case {
      name = "refused: " .. name, custom = {[op and "f" or "g"] = op or copy}, inputs = {a = a}, outputs = {o = {"float32", {P, F}}},
      body = ' custom_op "f", dsts=[o], srcs=[a]', refuse = text,
    }
  end
  refuse("not registered", nil, 'no operator "f" is registered')
  refuse("a number of operands", {fn = copy.fn, srcs = 2}, 'takes 2 srcs, not 1')
  refuse("immediates", {fn = copy.fn, imms = 1}, 'takes 1 imms, not 0')
  refuse("a type", {fn = copy.fn, srcs = {{"bfloat16", "float16"}}}, 'does not take float32 as src0')
  local tiles = "a float32[4,8]; o float32[4,8]; p float32[4,8] psum; "
  for _, r in ipairs {
    {"gpsimd", 'custom_op "", dsts=[o]', "missing"}, {"gpsimd", 'custom_op "f", srcs=[o]', "dsts"},
    {"gpsimd", 'custom_op "f", dsts=[p]', "psum"}, {"gpsimd", 'custom_op "f", dsts=[o], srcs=[p]', "psum"},
    {"gpsimd", 'custom_op "f", dsts=[o[:, 0:4], o[:, 3:8]]', "number 1 shares bytes with number 0"},
    {"gpsimd", 'custom_op "f", dsts=[o[:, 0:4]], srcs=[a, o[:, 1:5]]', "number 0 overlaps number 1 of srcs"},
    {"vector", 'custom_op "f", dsts=[o]', "gpsimd"},
  } do util.refused(suite, {"custom_op", r[1], tiles, r[2], r[3]}) end
end
